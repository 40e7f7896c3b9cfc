use ddsim::table::*;
fn main() {
    let mut l = vec![];
    if let Some(p) = std::env::args().nth(1) {
        let s = ddsim::trace::read(std::path::Path::new(&p)).unwrap();
        l.extend(of_trace("trace", &s, &[(5, 5), (5, 20), (5, 40)], true));
        l.extend(of_trace("trace rw", &s, &[(5, 20)], false));
    }
    l.extend(synthetic());
    println!("{:28} {:>12}", "", "incl");
    for x in &l {
        let r = row(x);
        let f = |o: ddsim::replay::Outcome| {
            format!(
                "{:5.2}/{:<5.1}",
                100. * o.hit_ratio(),
                o.puts_per_hit().unwrap_or(999.)
            )
        };
        print!("{:28} {}", r.name, f(r.inclusive));
        for (_, o) in &r.policies {
            print!(" {}", f(*o))
        }
        println!(
            " B {} rel {:.3}",
            f(r.belady),
            r.policies[0].1.hits as f64 / r.policies[1].1.hits.max(1) as f64
        )
    }
}
