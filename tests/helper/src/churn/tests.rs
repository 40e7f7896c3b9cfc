// SPDX-License-Identifier: GPL-2.0-only

use super::*;

const PLAN: Plan = Plan {
    seed: 7,
    steps: 2000,
    files: 8,
    longest: 256 << 10,
    block: 1024,
    offline: true,
};

/// Returns the report of a guest without faults.
fn report(plan: Plan) -> Vec<ReadResult> {
    let mut model = Model::new(&plan);
    let mut report = Vec::new();
    for (at, step) in (0..).zip(Script::new(plan)) {
        model.apply(&step);
        match step {
            Step::Read { file, .. } => report.push(ReadResult::new(at, model.file(file))),
            Step::Orphan { len, seed } => {
                let mut content = vec![0; len as usize];
                fill(seed, 0, &mut content);
                report.push(ReadResult::new(at, Some(&content)));
            }
            _ => {}
        }
    }
    report
}

#[test]
fn every_step_makes_sense() {
    for seed in 0..20 {
        let plan = Plan { seed, ..PLAN };
        let mut model = Model::new(&plan);
        let mut lengths = lengths::Lengths::new(plan.files);
        for step in Script::new(plan) {
            if let Step::Write {
                file,
                offset,
                len,
                by,
                ..
            } = step
            {
                let old = model.file(file).map(|content| content.len() as u64);
                assert!(len > 0 && old.is_some(), "{step:?}");
                assert!(by != By::Mapping || offset + len <= old.unwrap());
                assert!(by != By::Direct || (offset % 512 == 0 && len % 512 == 0));
            }
            model.apply(&step);
            lengths.apply(&step);
            for file in 0..plan.files {
                let len = model.file(file).map(|content| content.len() as u64);
                assert_eq!(len, lengths.of(file), "{step:?}");
                assert!(len.is_none_or(|len| len <= plan.longest), "{step:?}");
            }
        }
    }
}

#[test]
fn a_script_is_the_same_every_time() {
    assert!(Script::new(PLAN).eq(Script::new(PLAN)));
    let other = Plan { seed: 8, ..PLAN };
    assert!(!Script::new(PLAN).eq(Script::new(other)));
}

#[test]
fn a_faultless_report_is_accepted() {
    let replay = Replay::judge(PLAN, &report(PLAN)).unwrap();
    assert!(replay.pages > 1000);
    assert_eq!(replay.wrong, []);
}

#[test]
fn an_outdated_page_is_found_and_dated() {
    let mut model = Model::new(&PLAN);
    let mut outdated = None;
    let mut report = report(PLAN);
    // Simulates a page that a direct write replaced and that the next read sees unchanged.
    for (at, step) in (0..).zip(Script::new(PLAN)) {
        let before = model.clone();
        model.apply(&step);
        match (outdated, step) {
            (None, Step::Write { file, offset, .. }) => {
                let page = offset as usize / PAGE;
                let old = before.file(file).and_then(|old| digests(old).nth(page));
                outdated = old.map(|old| (file, page, old, at));
            }
            (Some((file, page, old, written)), Step::Read { file: read, .. }) if file == read => {
                let seen = report.iter_mut().find(|seen| seen.step == at).unwrap();
                seen.pages
                    .replace_range(page * 8..page * 8 + 8, &format!("{old:08x}"));
                let replay = Replay::judge(PLAN, &report).unwrap();
                assert_eq!(replay.wrong.len(), 1);
                assert_eq!(replay.wrong[0].page, Some(page));
                assert!(replay.wrong[0].since.is_some_and(|since| since < written));
                return;
            }
            (Some((file, ..)), step) if step.changed().contains(&Some(file)) => outdated = None,
            _ => {}
        }
    }
    panic!("no such place in the script");
}

#[test]
fn a_lost_line_is_noticed() {
    let mut report = report(PLAN);
    report.pop();
    assert!(Replay::judge(PLAN, &report).is_err());
}

#[test]
fn content_is_the_same_in_one_piece_or_several() {
    let mut whole = [0; 100];
    fill(3, 5, &mut whole);
    let mut parts = [0; 100];
    fill(3, 5, &mut parts[..41]);
    fill(3, 46, &mut parts[41..]);
    assert_eq!(whole, parts);
}
