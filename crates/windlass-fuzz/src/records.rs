//! Records of volumes: one line of JSON each, of which the last whole one counts.

use windlass::inner::{self, Record};

/// A record that is read can be written and is the same then; where the end of a file is missing, an earlier record counts
/// or none, never a half.
pub(crate) fn target(bytes: &[u8]) {
    let Ok(record) = inner::read_record(bytes) else { return };
    let line = inner::write_record(&record);
    assert_eq!(line.iter().filter(|it| **it == b'\n').count(), 1, "it is one line");
    assert_eq!(inner::read_record(&line).as_ref(), Ok(&record), "what was written is read");
    assert_eq!(inner::write_record(&record), line, "it is written alike each time");

    let later = Record { label: Some("later".into()), ..record.clone() };
    let both = [line.as_slice(), &inner::write_record(&later)].concat();
    for cut in 0..=both.len() {
        match inner::read_record(&both[..cut]) {
            Err(_) => assert!(cut + 1 < line.len(), "a whole record was lost at {cut}"),
            Ok(read) => assert!(read == record || cut == both.len() && read == later, "half a record at {cut}"),
        }
    }
}
