//! The table of reasons for people says what the code says.

use std::fmt::Write;
use windlass_core::reason::Code;

#[test]
fn the_table_in_the_documents_has_every_code_with_its_meaning_and_remedy() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reasons.md");
    let document = std::fs::read_to_string(path).expect("docs/reasons.md");
    let mut table = String::new();
    for code in Code::ALL {
        writeln!(table, "| `{code}` | {} | {} |", code.meaning(), code.remedy()).unwrap();
    }
    let rows: String = document.lines().filter(|it| it.starts_with("| `")).map(|it| format!("{it}\n")).collect();
    assert_eq!(rows, table, "docs/reasons.md must hold exactly this table:\n{table}");
}
