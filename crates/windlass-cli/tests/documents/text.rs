//! What of a document is code: `spans` in sentences, and the lines of blocks.

/// Something in a document that is code.
#[derive(Debug, PartialEq)]
pub(crate) struct Code<'text> {
    /// Counted from one.
    pub(crate) line: usize,
    pub(crate) text: &'text str,
    /// The words around it: a span's sentence, or the whole block.
    pub(crate) around: &'text str,
    pub(crate) is_block: bool,
}

/// All code of a document, and what its links lead to with their lines.
pub(crate) fn parts(document: &str) -> (Vec<Code<'_>>, Vec<(usize, &str)>) {
    let (mut codes, mut links) = (Vec::new(), Vec::new());
    let mut lines = document.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        let line_number = index + 1;
        if let Some(language) = line.trim_start().strip_prefix("```") {
            let block: Vec<_> = lines.by_ref().take_while(|(_, it)| !it.trim_start().starts_with("```")).collect();
            // What is shown of manifests, messages and programs is not told to anybody.
            let is_typed = ["sh", "console", "bash", "shell"].contains(&language.trim());
            if let ([(_, first), ..], [.., (_, last)]) = (block.as_slice(), block.as_slice())
                && is_typed
            {
                let start = first.as_ptr() as usize - document.as_ptr() as usize;
                let end = last.as_ptr() as usize - document.as_ptr() as usize + last.len();
                let around = &document[start..end];
                codes.extend(block.iter().map(|(index, text)| Code { line: index + 1, text, around, is_block: true }));
            }
            continue;
        }
        let mut rest = line;
        while let Some((_, after)) = rest.split_once('`') {
            let Some((span, next)) = after.split_once('`') else { break };
            codes.push(Code { line: line_number, text: span, around: line, is_block: false });
            rest = next;
        }
        let mut rest = line;
        while let Some((_, after)) = rest.split_once("](") {
            let Some((link, next)) = after.split_once(')') else { break };
            links.push((line_number, link));
            rest = next;
        }
    }
    (codes, links)
}

/// What a heading is called in a link to it, as forges do it.
pub(crate) fn anchor(heading: &str) -> String {
    let kept = heading.trim_start_matches('#').trim().to_lowercase();
    kept.chars().filter(|it| it.is_alphanumeric() || " -_".contains(*it)).collect::<String>().replace(' ', "-")
}

/// The table below a heading: its rows, each as cells.
pub(crate) fn table<'text>(document: &'text str, heading: &str) -> Vec<Vec<&'text str>> {
    let start = document.find(&format!("\n{heading}\n")).unwrap_or_else(|| panic!("there is no {heading:?}"));
    let section = document[start + 1..].lines().skip(1).take_while(|it| !it.starts_with('#'));
    let rows = section.filter(|it| it.starts_with('|')).skip(2);
    let rows: Vec<Vec<&str>> = rows.map(|it| it.trim_matches('|').split('|').map(str::trim).collect()).collect();
    assert!(!rows.is_empty(), "there is no table below {heading:?}");
    rows
}

/// The spans of code in a cell.
pub(crate) fn spans(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}
