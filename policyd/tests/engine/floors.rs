// SPDX-License-Identifier: GPL-2.0-only

//! Tests of floors that exceed the VM's share together, which the file alone does not show.

use crate::{
    model::Vm,
    workload::{GIB, Shape, Workload},
};

/// Returns a VM with a share of 1 GiB and `count` containers, each with this floor.
fn vm(count: usize, floor: &str) -> Vm {
    let file = format!(
        "interval_s = 5\n[[container]]\nname = \"{{}}\"\ncgroup = \"/c*\"\nclass = \"gold\"\n\
         cache_floor = \"{floor}\"\n"
    );
    let workload = |at| Workload::needing(&format!("/c{at}"), Shape::Exponential, 0.1);
    let mut vm = Vm::new(&file, (0..count).map(workload).collect(), GIB, 7);
    for _ in 0..5 {
        vm.interval();
    }
    vm
}

#[test]
fn floors_of_all_cgroups_are_summed() {
    for (count, floor, sum) in [
        (2, "600M", Some("1.2 GiB")),
        (1, "600M", None),
        (1, "1G", None),
        (1, "1100M", Some("1.1 GiB")),
        (3, "40%", Some("1.2 GiB")),
        (2, "50%", None),
    ] {
        let report = vm(count, floor).world.engine.report();
        let told = report.fulfilled().map_err(|unmet| unmet.to_string()).err();
        let text = sum.map(|sum| format!("`cache_floor` of all containers is {sum} together,"));
        let begins = |told: String| told.split(" and ").next().unwrap().to_owned();
        assert_eq!(told.map(begins), text, "{count} of {floor}");
        let shrinks = report.to_string().contains("each floor is made smaller");
        assert_eq!(shrinks, sum.is_some(), "{report}");
    }
}
