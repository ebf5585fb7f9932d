//! Figures of the network's transport that users' questions ask for: the terms `packets(NAME …)` of `tests/data/questions.toml`.

use rayon::prelude::*;

use super::{Alone, acked_us, drawn, load, run, transfers};

/// The figure that a term asks for.
pub(crate) fn answer(call: &str) -> f64 {
    let words: Vec<&str> = call.split(' ').collect();
    let number = |word: &str| word.parse::<u32>().unwrap_or_else(|_| panic!("`{word}` of `{call}` is no number"));
    match words[..] {
        ["fullest", qps] => fullest(number(qps)),
        ["slowdown", spines, dead] => slowdown(number(spines), number(dead)),
        ["duty", gb] => duty(number(gb)),
        ["spread", nodes, choice] => spread(number(nodes), choice),
        ["racks", how, mib] => racks(how, number(mib)),
        ["warned", transport, code] => warned(transport, code),
        _ => panic!("no figure `{call}`"),
    }
}

/// Eight hosts of a leaf to eight of another over eight uplinks, each message over so many queue pairs: the bytes of the fullest
/// uplink over the mean, a mean of 300 seeds.
pub(crate) fn fullest(qps: u32) -> f64 {
    let pairs: Vec<(u32, u32)> = (0..8).map(|host| (host, 8 + host)).collect();
    let of = |seed| {
        let head = drawn("leaf-spine", 16, 100, seed).replace("leaves = 8", "leaves = 2");
        let transport = format!("[transport]\nkind = \"roce\"\npath_choice = \"hash\"\nqps = {qps}\n");
        let (loaded, report) = run(&format!("{head}{transport}{}", transfers(&pairs, "1 MiB")));
        let fabric = &loaded.fabric;
        let leaf = fabric.find("leaf0").expect("a leaf");
        let uplinks = fabric
            .links()
            .iter()
            .zip(&report.carried)
            .filter(|(link, _)| link.from == leaf && fabric.device(link.to).name.starts_with("spine"));
        let bytes: Vec<f64> = uplinks.map(|(_, carried)| carried.payload as f64).collect();
        assert_eq!(bytes.len(), 8);
        bytes.iter().copied().fold(0.0, f64::max) * 8.0 / bytes.iter().sum::<f64>()
    };
    (1..=300).into_par_iter().map(of).sum::<f64>() / 300.0
}

/// Sixteen hosts of a leaf to sixteen of another by adaptive routing over so many spines, of which some are dead: the last flow's
/// time over one's alone.
pub(crate) fn slowdown(spines: u32, dead: u32) -> f64 {
    let ratio = 16.0 / f64::from(spines);
    let shape = format!("leaves = 2\nspines = {spines}\noversubscription = {ratio:.4}");
    let head = drawn("leaf-spine", 32, 100, 1).replace("leaves = 8\nspines = 8", &shape);
    let faults: String =
        (0..dead).map(|spine| format!("[[fault]]\nkind = \"dead\"\ntarget = \"spine{spine}\"\n")).collect();
    let play = |pairs: &[(u32, u32)]| {
        let scenario = format!("{head}[transport]\npreset = \"spectrum-x\"\n{faults}{}", transfers(pairs, "16 MiB"));
        *acked_us(&Alone::of(&scenario).play()).last().expect("a flow")
    };
    let pairs: Vec<(u32, u32)> = (0..16).map(|host| (host, 16 + host)).collect();
    play(&pairs) / play(&pairs[..1])
}

/// One NIC of 400 Gb/s to another that passes on so many GB/s to its GPU: the share of the time that it holds its leaf's port.
pub(crate) fn duty(gb: u32) -> f64 {
    // What a PCIe 5.0 x16 link carries of payload.
    let factor = f64::from(gb) / 57.6;
    let scenario = format!(
        "schema = 1\nsystem = \"hgx-h100\"\nnodes = 2\ngpus_per_node = 1\n\
         [transport]\npreset = \"roce-400g\"\nrate_control = \"none\"\n\
         [[fault]]\nkind = \"degraded\"\ntarget = \"node1.nic0<->node1.pcie0\"\nfactor = {factor:.4}\n{}",
        transfers(&[(0, 1)], "256 MiB")
    );
    let (_, report) = run(&scenario);
    let last = report.all_links.iter().find(|link| link.link == "leaf0->node1.nic0").expect("the last link");
    last.pfc_pause_us / report.results.engine.simulated_us.expect("a time")
}

/// All pairs of NICs of so many nodes of eight, 64 KiB each: the coefficient of variation of the time over eight seeds.
pub(crate) fn spread(nodes: u32, choice: &str) -> f64 {
    let of = |seed| {
        let scenario = format!(
            "schema = 1\nseed = {seed}\nsystem = \"hgx-h100\"\nnodes = {nodes}\n[fabric]\nkind = \"leaf-spine\"\nleaves = {nodes}\nspines = 8\n\
             [transport]\npreset = \"{}\"\npath_choice = \"{choice}\"\n\
             [[workload]]\nkind = \"transfer\"\npattern = \"all_to_all\"\nsize = \"64 KiB\"\n",
            if choice == "hash" { "roce-400g" } else { "spectrum-x" }
        );
        *acked_us(&Alone::of(&scenario).play()).last().expect("a flow")
    };
    let times: Vec<f64> = (1..=8).into_par_iter().map(of).collect();
    let mean = times.iter().sum::<f64>() / times.len() as f64;
    let variance = times.iter().map(|time| (time - mean).powi(2)).sum::<f64>() / (times.len() - 1) as f64;
    variance.sqrt() / mean
}

/// Two nodes of eight NICs of 200 Gb/s in a rack and one in another, whose leaves have a quarter of that to the spines and share 24 MB
/// among queues: bus bandwidth of an all-reduce, GB/s. `lossy`: full queues drop, senders go back and don't slow down; `lossless`: pauses;
/// `ideal`: queues without bound.
pub(crate) fn racks(how: &str, mib: u32) -> f64 {
    let transport = match how {
        "lossy" => {
            "preset = \"roce-200g-lossy\"\nrecovery = \"go-back-n\"\nrate_control = \"none\"\nrto = \"67 ms\"\nbuffer = { size = \"24 MB\" }"
        }
        "lossless" => "preset = \"roce-200g\"\nrate_control = \"none\"\nbuffer = { size = \"24 MB\" }",
        "ideal" => "kind = \"roce\"\nmodel = \"virtual\"",
        other => panic!("no racks `{other}`"),
    };
    let scenario = format!(
        "schema = 1\nsystem = \"hgx-h100\"\nnodes = 3\nnics = \"8x200Gb/s\"\n\
         [fabric]\nkind = \"leaf-spine\"\nleaves = 2\nspines = 2\noversubscription = 4\n[transport]\n{transport}\n\
         [[workload]]\nkind = \"collective\"\nop = \"all_reduce\"\nsizes = [\"{mib} MiB\"]\n"
    );
    run(&scenario).1.results.collectives[0].busbw
}

/// Whether a class that is neither paused nor slowed down (`bare`), or a common one (`paused`), is warned of with a code: 1 or 0.
pub(crate) fn warned(transport: &str, code: &str) -> f64 {
    let transport = match transport {
        "bare" => "preset = \"roce-400g-lossy\"\nrate_control = \"none\"",
        "paused" => "preset = \"roce-400g\"",
        other => panic!("no transport `{other}`"),
    };
    let loaded = load(&format!(
        "schema = 1\nsystem = \"hgx-h100\"\nnodes = 2\n[transport]\n{transport}\n{}",
        transfers(&[(0, 1)], "1 MiB")
    ));
    let lines = loaded.diagnostics.warning_lines();
    f64::from(u8::from(lines.iter().any(|line| line.contains(code))))
}
