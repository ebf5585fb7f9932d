//! Published times of training steps beside what comes out here.

mod closed;
mod cluster;
mod fit;
mod mapping;
mod rows;

#[test]
fn explore() {
    let only = std::env::var("FAMILY").unwrap_or_default();
    for row in rows::all() {
        if !row.family.contains(&only) {
            continue;
        }
        match mapping::case(&row) {
            Err(why) => println!("{:24} {:60} -- {why}", row.family, row.name),
            Ok(case) => {
                let p = closed::step(&case, closed::Fit::NONE);
                let ex: Vec<String> = p.exposed.iter().filter(|(_, v)| **v > 0.001 * p.total).map(|(k, v)| format!("{k} {:.1}%", v / p.total * 100.0)).collect();
                println!(
                    "{:22} {:52} {:8.3} {:8.3} {:+6.1}% | comp {:.1}% bub {:.1}% opt {:.1}% {} | {}",
                    row.family, row.name.chars().take(52).collect::<String>(), case.seconds, p.total, (p.total / case.seconds - 1.0) * 100.0,
                    p.compute / p.total * 100.0, p.bubble / p.total * 100.0, p.optimizer / p.total * 100.0, ex.join(" "),
                    case.guesses.iter().collect::<String>()
                );
            }
        }
    }
}

#[test]
fn proof() {
    let mut cases = Vec::new();
    for row in rows::all() {
        let Ok(mut case) = mapping::case(&row) else { continue };
        let kernels = closed::step(&case, closed::Fit::NONE);
        case.contradicts = case.seconds < kernels.compute;
        cases.push(case);
    }
    let scored = fit::score(cases, &|case, fit| closed::step(case, fit).total);
    let only = std::env::var("FAMILY").unwrap_or_default();
    let mut last = String::new();
    for s in scored.iter().filter(|s| s.case.row.family.contains(&only)) {
        let g = s.case.group();
        if g != last { println!("== {g}: efficiency {:.3}", s.fit.efficiency); last = g; }
        println!("   {:62} {:5} {} {:9.3} {:+6.1} {:+6.1} {}", s.case.row.name.chars().take(62).collect::<String>(), s.case.row.gpus, s.case.row.grade, s.case.seconds, s.plain_error()*100., s.error()*100., if s.inside {"fit"} else if s.case.contradicts {"contradicts"} else {""});
    }
    for family in rows::families() {
        for grade in ["A", "B", "C"] {
            let all: Vec<&fit::Scored> = scored.iter().filter(|s| s.case.row.family == family && s.case.row.grade == grade).collect();
            if all.is_empty() { continue }
            let ex: Vec<f64> = all.iter().filter(|s| s.proves()).map(|s| s.error().abs()).collect();
            let pct = |v: Option<f64>| v.map_or("-".into(), |v| format!("{:.1}", v * 100.));
            println!("{family:24} {grade} n {:3} plain {} | extrapolated {} median {} p90 {} | ratios {} {} | tau {:?}", all.len(), pct(fit::median(all.iter().map(|s| s.plain_error().abs()).collect())), ex.len(), pct(fit::median(ex.clone())), pct(fit::ninetieth(ex.clone())), fit::ratios(&all).len(), pct(fit::median(fit::ratios(&all))), fit::kendall(&all));
        }
    }
    for grade in ["A", "B"] {
        let ex: Vec<f64> = scored.iter().filter(|s| s.case.row.grade == grade && s.proves()).map(|s| s.error().abs()).collect();
        println!("all {grade}: {} rows, median {:.1}", ex.len(), fit::median(ex.clone()).unwrap() * 100.);
    }
}
