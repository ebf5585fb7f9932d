use super::*;
use crate::nccl::Operation;

#[test]
fn known_variables_are_read() {
    let mut knobs = Knobs::default();
    let effect = knobs.set("NCCL_MAX_NCHANNELS", "8").unwrap();
    assert_eq!(effect, Effect::Read { knob: Knob::MaxNchannels, reader: Reader::Selection });
    assert_eq!(knobs.number(Knob::MaxNchannels), Some(8));
    knobs.set("NCCL_MAX_NCHANNELS", "16").unwrap();
    assert_eq!(knobs.number(Knob::MaxNchannels), Some(16));
    knobs.set("NCCL_MAX_NCHANNELS", "").unwrap();
    assert_eq!(knobs.number(Knob::MaxNchannels), None);
    knobs.set("NCCL_BUFFSIZE", "8M").unwrap();
    assert_eq!(knobs.number(Knob::Buffsize), Some(8 << 20));
    knobs.set("NCCL_P2P_LEVEL", "3").unwrap();
    assert_eq!(knobs.level(Knob::P2pLevel), Some(PathType::Phb));
}

#[test]
fn other_variables_are_kept_without_effect() {
    let mut knobs = Knobs::default();
    assert_eq!(knobs.set("NCCL_DEBUG", "INFO"), Ok(Effect::None { similar: None }));
    assert_eq!(knobs.set("NCCL_ALOG", "Ring"), Ok(Effect::None { similar: Some("NCCL_ALGO") }));
    assert_eq!(knobs.inert().collect::<Vec<_>>(), [("NCCL_ALOG", "Ring"), ("NCCL_DEBUG", "INFO")]);
}

#[test]
fn bad_names_and_values_teach() {
    let mut knobs = Knobs::default();
    let error = knobs.set("CUDA_VISIBLE_DEVICES", "0").unwrap_err();
    assert!(error.to_string().contains("begins with `NCCL_`"), "{error}");
    for (name, value, part) in [
        ("NCCL_MAX_NCHANNELS", "many", "a whole number from 1 to 1024"),
        ("NCCL_MAX_NCHANNELS", "-1", "a whole number"),
        ("NCCL_BUFFSIZE", "99999999999999999999", "a whole number"),
        ("NCCL_BUFFSIZE", "9999999999999G", "a whole number"),
        ("NCCL_ALGO", "Rang", "`Rang` is no algorithm"),
        ("NCCL_ALGO", "^", "a name"),
        ("NCCL_PROTO", "allreduce:", "a name"),
        ("NCCL_P2P_LEVEL", "near", "a path type"),
    ] {
        let error = knobs.set(name, value).unwrap_err().to_string();
        assert!(error.contains(part), "{name}={value}: {error}");
        assert!(error.contains(value), "{name}={value}: {error}");
    }
    assert_eq!(knobs, Knobs::default());
}

#[test]
fn lists_with_prefixes() {
    let mut knobs = Knobs::default();
    knobs.set("NCCL_ALGO", "ring,collnetdirect;allreduce:tree;broadcast:^tree").unwrap();
    let list = knobs.algorithms().unwrap();
    assert!(list.per_operation());
    assert!(list.allows(Operation::AllGather, Algorithm::Ring));
    assert!(!list.allows(Operation::AllGather, Algorithm::Tree));
    assert!(list.allows(Operation::AllReduce, Algorithm::Tree));
    assert!(!list.allows(Operation::AllReduce, Algorithm::Ring));
    assert!(list.allows(Operation::Broadcast, Algorithm::Ring));
    assert!(!list.names(Operation::Broadcast));
    assert!(list.names(Operation::AllReduce));
}

#[test]
fn every_knob_is_found_by_its_name() {
    for &knob in Knob::ALL {
        assert_eq!(Knob::from_name(knob.name()), Some(knob));
    }
}
