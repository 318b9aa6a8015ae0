//! What the documents promise is there.

use std::collections::BTreeSet;
use std::path::Path;

const DEFECTS: &str = include_str!("../docs/defects.md");

/// Every function below a folder.
fn functions(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            functions(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).expect("text");
            let name = |part: &str| part.split_once('(').map(|(name, _)| name.to_owned());
            found.extend(text.split("fn ").skip(1).filter_map(name));
        }
    }
}

/// The cells of each line of the table.
fn defects() -> Vec<Vec<&'static str>> {
    let lines = DEFECTS.lines().filter(|line| line.starts_with("| B"));
    lines.map(|line| line.split('|').map(str::trim).collect()).collect()
}

#[test]
fn docs_name_only_tests_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut known = BTreeSet::new();
    functions(&root.join("src"), &mut known);
    functions(&root.join("tests"), &mut known);
    for cells in defects() {
        let (number, promise, proof) = (cells[1], cells[3], cells[4]);
        let tests = proof.split('`').skip(1).step_by(2).collect::<Vec<_>>();
        for test in &tests {
            assert!(known.contains(*test), "{number}: there is no test {test}");
        }
        let numbered = format!("{}_", number.to_lowercase());
        let is_proved = tests.iter().any(|test| test.starts_with(&numbered) || test.contains(&format!("_{numbered}")));
        assert!(is_proved || promise.starts_with("*Coming*"), "{number}: no test carries its number");
    }
}

#[test]
fn every_known_defect_is_answered_for() {
    let answered = defects().iter().map(|cells| cells[1].to_owned()).collect::<BTreeSet<_>>();
    let all = (1..=49).map(|number| format!("B{number}")).collect::<BTreeSet<_>>();
    assert_eq!(answered, all, "answered is on the left");
}
