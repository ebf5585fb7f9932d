//! Laws at their corners, figures against their sources, bounds of the reference.

use sim_core::units::{Bytes, Rate, Span};

use super::slowdown::beside;
use super::*;
use crate::model::Models;
use crate::parallel::SizesSpec;

fn figures() -> &'static Figures {
    Figures::builtin()
}

fn gemm(m: u64, n: u64, k: u64) -> Kernel {
    Kernel { name: "product", work: Work::Gemm { m, n, k } }
}

#[test]
fn best_rates_of_the_source() {
    // Shares of dense peaks as the source prints them; of MI355X it prints 68, of a peak that was stated lower then.
    for (gpu, bf16, fp8) in [
        ("a100-sxm4-80", 87, None),
        ("a100-pcie-80", 81, None),
        ("h100-sxm", 80, Some(71)),
        ("h200-sxm", 80, Some(73)),
        ("gh200-144", 84, Some(78)),
        ("b200-sxm", 78, Some(76)),
        ("b300-sxm", 79, Some(75)),
        ("gb200", 73, Some(72)),
        ("mi300x", 51, None),
        ("mi325x", 60, None),
        ("mi355x", 62, None),
    ] {
        let device = figures().device(gpu).unwrap();
        let percent = |number| {
            let (peak, best) = device.rates(number);
            (best.get() as f64 / peak.get() as f64 * 100.0).round() as i64
        };
        assert_eq!(percent(Number::Bf16), bf16, "{gpu}");
        if let Some(fp8) = fp8 {
            assert_eq!(percent(Number::Fp8), fp8, "{gpu}");
        }
        assert_eq!(device.standing, "measured");
    }
    let error = figures().device("h100").unwrap_err().to_string();
    assert!(error.contains("h100-sxm"), "{error}");
}

#[test]
fn files_of_figures_that_are_none() {
    let text = include_str!("../../data/compute.toml");
    let fault = |from: &str, to: &str| Figures::parse(&text.replace(from, to)).unwrap_err();
    assert!(fault("standing = \"recalled\"", "standing = \"sure\"").contains("the standing `sure`"));
    assert!(fault("source = \"calculon\"", "source = \"nobody\"").contains("`nobody`, which is not there"));
    assert!(fault("[curve.matrix]", "[curve.matrices]").contains("no curve `matrix`"));
    assert!(fault("unit = \"MB\"", "unit = \"MiB\"").contains("unit `MiB`"));
    assert!(fault("schema = 1", "schema = 2").contains("schema 2"));
}

#[test]
fn curves_step_up() {
    let curve = &figures().matrix;
    let giga = 1_000_000_000;
    for (size, share) in [(0, 100_000), (giga - 1, 100_000), (giga, 600_000), (16 * giga, 900_000), (1 << 60, 950_000)]
    {
        assert_eq!(curve.at(size), share, "{size}");
    }
    assert_eq!(figures().memory.at(99_999_999), 750_000);
    assert_eq!(Curve::steps(Vec::new()).at(7), 1_000_000);
}

#[test]
fn waves_of_tiles() {
    let tiles = Tiles { best: 800_000, processors: 132, rows: 128, columns: 256, half_depth: 0 };
    // 132 tiles fill a wave; one more needs a second, in which 131 processors wait.
    assert_eq!(tiles.share(1, 128 * 11, 256 * 12, 4096), 800_000);
    let two = tiles.share(1, 128 * 7, 256 * 19, 4096);
    assert_eq!(two, 800_000 * (133 * 1_000_000 / 264) / 1_000_000);
    // A tile that is filled by half does half.
    assert_eq!(tiles.share(1, 64, 256 * 132, 4096), 400_000);
    // At K0 half the time is filling and emptying.
    assert_eq!(Tiles { half_depth: 4096, ..tiles }.share(1, 128 * 132, 256, 4096), 400_000);
    // 64 experts of 100 rows: tiles of their own each.
    assert_eq!(tiles.share(64, 100, 256 * 33, 4096), 800_000 * (100 * 1_000_000 / 128) / 1_000_000);
    assert!(tiles.share(1, 1, 1, 1) >= 1);
    assert_eq!(tiles.share(1, 0, 0, 0), 800_000);
}

#[test]
fn the_larger_of_work_and_memory() {
    let machine = Machine::ideal(FlopRate::from_tera(1000.0), Rate::gbyte(2000));
    // Square and large: 2·8192³ operations at 10¹⁵/s. One row: K·N weights of two bytes.
    assert_eq!(machine.kernel(&gemm(8192, 8192, 8192), Pass::Forward, 2), Span::from_ps(1_099_511_628));
    let row = machine.kernel(&gemm(1, 8192, 8192), Pass::Forward, 2);
    assert_eq!(row, Rate::gbyte(2000).time_for(Bytes::new(2 * (8192 * 8192 + 2 * 8192))));
    let late = Machine { launch: Span::from_us(2), ..machine.clone() };
    assert_eq!(late.kernel(&gemm(1, 8192, 8192), Pass::Forward, 2), row + Span::from_us(2));
    // A norm has no gradient by weights to speak of, and so no kernel.
    let norm = Kernel { name: "norm", work: Work::Memory { elements: 1 << 20 } };
    assert_eq!(late.kernel(&norm, Pass::WeightGradient, 2), Span::ZERO);
    // Few rows for each expert: half the rate.
    let experts = |rows| Kernel { name: "experts", work: Work::Grouped { groups: 8, rows, n: 8192, k: 8192 } };
    let machine = Machine { memory: Rate::gbyte(20_000), ..machine };
    let slow = Machine { grouped: (512, 500_000), ..machine.clone() };
    for (rows, times) in [(8 * 511, 2.0), (8 * 512, 1.0)] {
        let ratio = slow.kernel(&experts(rows), Pass::Forward, 2).as_us()
            / machine.kernel(&experts(rows), Pass::Forward, 2).as_us();
        assert!((ratio - times).abs() < 1e-6, "{rows}: {ratio}");
    }
}

#[test]
fn narrow_numbers_are_made_first() {
    let plain = Machine::ideal(FlopRate::from_tera(1000.0), Rate::gbyte(1000));
    let narrow = Machine { narrowing: 4, ..plain.clone() };
    let of = |name| Kernel { name, work: Work::Gemm { m: 8192, n: 4096, k: 1024 } };
    let more = |name, pass| narrow.kernel(&of(name), pass, 2) - plain.kernel(&of(name), pass, 2);
    let moved = |elements: u64| Rate::gbyte(1000).time_for(Bytes::new(4 * elements));
    // Forward the input, unless a norm wrote it so; backward the gradient of the result, for both products once.
    assert_eq!(more("FFN down", Pass::Forward), moved(8192 * 1024));
    assert_eq!(more("FFN up", Pass::Forward), Span::ZERO);
    assert_eq!(more("FFN up", Pass::DataGradient), moved(8192 * 4096));
    assert_eq!(more("FFN up", Pass::WeightGradient), Span::ZERO);
    // The head stays as it is, at the rate of 16 bits.
    assert_eq!(more("head", Pass::DataGradient), Span::ZERO);
    let fast = Machine { peak_weights: FlopRate::from_tera(2000.0), memory: Rate::gbyte(100_000), ..plain };
    let time = |name| fast.kernel(&of(name), Pass::Forward, 2).as_us();
    assert!((time("head") / time("FFN up") - 2.0).abs() < 1e-6);
}

#[test]
fn gradients_by_weights_are_added_in_place() {
    let slow = Machine { gradient: 8, ..Machine::ideal(FlopRate::from_tera(1e6), Rate::gbyte(1000)) };
    let time = slow.kernel(&gemm(128, 4096, 4096), Pass::WeightGradient, 2);
    assert_eq!(time, Rate::gbyte(1000).time_for(Bytes::new(2 * 2 * 128 * 4096 + 8 * 4096 * 4096)));
}

#[test]
fn parts_of_a_product_fill_less_of_their_waves() {
    let machine = Machine::of(figures().device("h100-sxm").unwrap(), Number::Bf16, Rate::gbyte(3350), figures());
    let kernel = gemm(8192, 2560, 8192);
    let (whole, cut) = (machine.kernel(&kernel, Pass::Forward, 2), machine.cut(&kernel, Pass::Forward, 2, 4));
    assert_eq!(machine.cut(&kernel, Pass::Forward, 2, 1), whole);
    // 640 tiles in 5 waves of 132; 160 in 2, four times.
    let ratio = (cut - machine.launch * 4).as_us() / (whole - machine.launch).as_us();
    assert!((ratio - 8.0 / 5.0).abs() < 1e-3, "{ratio}");
    // Efficiency is of rates: half of it, twice the time.
    let half = machine.clone().scaled(500_000);
    let ratio = (half.kernel(&kernel, Pass::Forward, 2) - half.launch).as_us() / (whole - machine.launch).as_us();
    assert!((ratio - 2.0).abs() < 1e-3, "{ratio}");
    // Every other product done again: half a forward pass more.
    let again = Machine { again: 500_000, ..machine.clone() };
    let more = again.kernel(&kernel, Pass::DataGradient, 2) - machine.kernel(&kernel, Pass::DataGradient, 2);
    assert!((more.as_us() / whole.as_us() - 0.5).abs() < 1e-3);
}

#[test]
fn rates_of_numbers_without_a_search() {
    let device = figures().device("gb200").unwrap();
    let share = |number| {
        let (peak, best) = device.rates(number);
        best.get() as f64 / peak.get() as f64
    };
    assert_eq!(device.rates(Number::Fp4).0, FlopRate::from_tera(10_000.0));
    assert!((share(Number::Fp4) - share(Number::Fp8)).abs() < 1e-9);
    // A100 has no narrower numbers: those of 16 bits.
    let device = figures().device("a100-sxm4-80").unwrap();
    assert_eq!(device.rates(Number::Fp4), device.rates(Number::Bf16));
}

#[test]
fn tokens_of_a_decode_are_bounded_by_the_weights() {
    // 24·10⁹ parameters on an A100 PCIe: 24.8 ms a token; a quarter on each of four, and 80 messages of 20 µs: 7.8 ms.
    let read = |parameters: u64, rate: u64| {
        Machine::ideal(FlopRate::from_tera(312.0), Rate::gbyte(rate)).pass_over(Bytes::new(2 * parameters))
    };
    let ms = |span: Span| format!("{:.1}", span.as_us() / 1e3);
    assert_eq!(ms(read(24_000_000_000, 1935)), "24.8");
    assert_eq!(ms(read(6_000_000_000, 1935) + Span::from_us(20) * 80), "7.8");
    // 70·10⁹ over four: 18.1 ms on PCIe cards, 17.2 on SXM.
    assert_eq!(ms(read(17_500_000_000, 1935)), "18.1");
    assert_eq!(ms(read(17_500_000_000, 2039)), "17.2");
    // 5.2 ms on eight H100, beside 160 messages of 10 µs.
    assert_eq!(ms(read(8_750_000_000, 3350)), "5.2");
}

#[test]
fn layers_add_up() {
    let model = &Models::builtin().get("llama3.1-8b").unwrap().model;
    let sizes = SizesSpec { gpus: 4, pipeline: 4, global_batch: 4, ..SizesSpec::default() }.check(model).unwrap();
    let job = Job::training(model, &sizes);
    let machine = Machine::of(figures().device("h100-sxm").unwrap(), Number::Bf16, Rate::gbyte(3350), figures());
    let layer = machine.layer(model, 0, &sizes.share(), 2);
    assert_eq!(machine.chunk(&job, 1, 0), layer * 8);
    assert!(machine.chunk(&job, 0, 0).total() > (layer * 8).total());
    assert!(machine.chunk(&job, 3, 0).total() > machine.chunk(&job, 0, 0).total());
    // Backward is about twice forward: the gradient by the inputs a little more, for attention has no other.
    assert!(layer.data > layer.forward && layer.weight < layer.forward);
    // 8·10⁹ parameters at 40 to 60 % of the peak, as whole models reach.
    let flops = model.training_flops(1, 4096, crate::model::flops::Counted::MODEL);
    let time: Span = (0..4).map(|s| machine.chunk(&job, s, 0).total()).sum();
    let share = crate::model::flops::utilisation(flops, time.as_secs(), 1, machine.peak);
    assert!((0.5..0.75).contains(&share), "{share}");
    // In fp8 the products of weights are faster, not twice.
    let fp8 = Machine::of(figures().device("h100-sxm").unwrap(), Number::Fp8, Rate::gbyte(3350), figures());
    let ratio = layer.total().as_us() / fp8.layer(model, 0, &sizes.share(), 2).total().as_us();
    assert!(ratio > 1.2 && ratio < 1.9, "{ratio}");
    // Recomputation adds one more forward pass.
    let full = SizesSpec {
        gpus: 4,
        pipeline: 4,
        global_batch: 4,
        recompute: crate::model::activations::Recompute::Full,
        ..SizesSpec::default()
    };
    let sizes = full.check(model).unwrap();
    assert_eq!(machine.chunk(&Job::training(model, &sizes), 1, 0).data, (layer.data + layer.forward) * 8);
}

#[test]
fn unfused_attention_does_twice_the_work_and_moves_the_scores() {
    let model = &Models::builtin().get("gpt-22b").unwrap().model;
    let fused = Share { tensor: 8, ..Share::whole(4, 2048) };
    let flops =
        |share: &Share| model.layer_kernels(0, share).iter().map(|k| k.flops(Pass::DataGradient).get()).sum::<u128>();
    let core = 4 * 8 * 2048 * 2048 * 96 * 2;
    let unfused = Share { fused: false, ..fused };
    // The causal half is 2·s·d a head and token, backward twice; all pairs are twice that.
    assert_eq!(flops(&unfused) - flops(&fused), 2 * core);
    let machine = Machine::of(figures().device("a100-sxm4-80").unwrap(), Number::Bf16, Rate::gbyte(2039), figures());
    assert!(machine.layer(model, 0, &unfused, 2).total() > machine.layer(model, 0, &fused, 2).total());
}

#[test]
fn a_profile_comes_before_the_law() {
    let text = "[[kernel]]\nname = \"product\"\npass = \"forward\"\nm = 8\nn = 8\nk = 8\ntime = \"7 us\"\n\
                [[kernel]]\nname = \"product\"\npass = \"forward\"\ntime = \"9 us\"\n";
    let machine = Machine {
        profile: Profile::from_toml(text).unwrap(),
        ..Machine::ideal(FlopRate::from_tera(1.0), Rate::gbyte(1))
    };
    assert_eq!(machine.kernel(&gemm(8, 8, 8), Pass::Forward, 2), Span::from_us(7));
    assert_eq!(machine.kernel(&gemm(8, 8, 9), Pass::Forward, 2), Span::from_us(9));
    assert_ne!(machine.kernel(&gemm(8, 8, 8), Pass::DataGradient, 2), Span::from_us(7));
    let fault = |text: &str| Profile::from_toml(text).unwrap_err().to_string();
    assert!(fault(&text.replace("k = 8\n", "")).contains("one or two of `m`, `n` and `k`"));
    assert!(fault(&text.replace("7 us", "7")).starts_with("time of kernel `product`: a bare number"));
    assert!(fault(&format!("{text}{text}")).contains("stands twice"));
    assert!(fault("[[kernel]]\nname = 3").contains("expected a string"));
}

#[test]
fn work_beside_messages_goes_on_slower() {
    let us = Span::from_us;
    // All of it beside: 100 µs at 80 %. The first 50 µs beside: 40 done, 60 left. None.
    assert_eq!(beside(us(100), 200_000, us(1000)), us(125));
    assert_eq!(beside(us(100), 200_000, us(50)), us(110));
    assert_eq!(beside(us(100), 200_000, Span::ZERO), us(100));
    assert_eq!(beside(us(100), 0, us(50)), us(100));
    assert_eq!(beside(Span::from_ps(u64::MAX), 900_000, us(1)), Span::from_ps(u64::MAX));
    assert_eq!(figures().overlap, Slowdown { scale_up: 150_000, scale_out: 20_000 });
}

#[test]
fn jitter_has_streams_of_its_own() {
    let jitter = Jitter {
        seed: 5,
        step: 0,
        kernel_sigma: 0.015,
        gpu_sigma: 0.02,
        straggler_share: 0.005,
        straggler_slowdown: 0.1,
    };
    let draw = |jitter: &Jitter, gpu| {
        let mut gpu = jitter.gpu(gpu);
        (0..4).map(|_| gpu.next(Span::from_us(100))).collect::<Vec<_>>()
    };
    assert_eq!(draw(&jitter, 3), draw(&jitter, 3));
    assert_ne!(draw(&jitter, 3), draw(&jitter, 4));
    // Without jitter the time is exact.
    assert_eq!(draw(&Jitter::default(), 3), [Span::from_us(100); 4]);
    // Stragglers: 0.5 % of many; which they are does not depend on the other laws.
    let alone = Jitter { kernel_sigma: 0.0, gpu_sigma: 0.0, ..jitter };
    let slow: Vec<u64> = (0..20_000).filter(|g| jitter.is_straggler(*g)).collect();
    assert!((70..130).contains(&slow.len()), "{}", slow.len());
    assert!(slow.iter().all(|g| alone.lasting(*g) == 1.1) && alone.lasting(slow[0] + 1) == 1.0);
    // The slowest of n by kernels alone: about σ·√(2·ln n) over the median.
    let mut worst = 0.0f64;
    let kernels = Jitter { gpu_sigma: 0.0, straggler_share: 0.0, ..jitter };
    for gpu in 0..4096 {
        worst = worst.max(kernels.gpu(gpu).next(Span::from_us(1000)).as_us() / 1000.0);
    }
    let expected = (0.015 * (2.0 * 4096f64.ln()).sqrt()).exp();
    assert!((worst - expected).abs() < 0.02, "{worst} {expected}");
}

#[test]
fn steps_vary_as_in_the_logs() {
    let laws: Vec<_> = figures().steps().collect();
    assert_eq!(laws.len(), 9);
    for (run, law) in laws {
        let n = 4001;
        let mut steps: Vec<f64> = (0..n).map(|i| law.draw(1, i, law.median).as_secs()).collect();
        steps.sort_by(f64::total_cmp);
        let median = law.median.as_secs();
        assert!((steps[2000] / median - 1.0).abs() < 0.005, "{run}");
        let long = steps.iter().filter(|s| **s > 1.15 * median).count() as f64 / n as f64;
        // Within four standard deviations of the draw.
        let tolerance = 4.0 * (law.stall_share / n as f64).sqrt();
        assert!((long - law.stall_share).abs() <= tolerance, "{run}: {long}");
        let short: Vec<f64> = steps.iter().filter(|s| **s <= 1.15 * median).map(|s| (s / median).ln()).collect();
        let sigma = (short.iter().map(|x| x * x).sum::<f64>() / short.len() as f64).sqrt();
        assert!((sigma / law.sigma - 1.0).abs() < 0.35, "{run}: {sigma}");
    }
    let (_, law) = figures().steps().next().unwrap();
    assert_eq!(law.draw(1, 7, law.median), law.draw(1, 7, law.median));
    assert_ne!(law.draw(1, 7, law.median), law.draw(1, 8, law.median));
}
