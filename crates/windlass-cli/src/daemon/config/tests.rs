//! Configuration files that nobody would write: each is read or refused, and what is read can be printed and read again.

use proptest::prelude::*;

use super::*;

/// Lines as people write them, whole or not.
fn line() -> impl Strategy<Value = String> {
    let key = prop_oneof![
        prop::sample::select(known()),
        "[a-z-]{0,12}",
        Just("? ".to_owned()),
        Just("<<".to_owned()),
        Just("\"root\"".to_owned()),
    ];
    let value = prop_oneof![
        "[0-9]{1,20}(ms|s|m|h|d)?",
        "[/a-z.]{0,20}",
        Just("true".to_owned()),
        Just("text".to_owned()),
        Just("{loop.example: {timeout: 30s, calls-at-once: 4, controller: /run/x.sock}}".to_owned()),
        "[\\[\\]{}&*!|>'\"%@`#,:~ -]{0,6}",
        "\\PC{0,12}",
    ];
    (key, value, "[ \\t]{0,2}").prop_map(|(key, value, space)| format!("{space}{key}: {value}\n"))
}

proptest! {
    #[test]
    fn whatever_is_written_is_read_or_refused_and_what_is_read_can_be_printed_and_read_again(
        lines in prop::collection::vec(line(), 0..6),
    ) {
        let text = lines.concat();
        let Ok(settings) = parse(&text) else { return Ok(()) };
        let paths = Paths::system();
        let Ok(config) = settings.mean(&paths) else { return Ok(()) };
        let printed = config.to_settings().to_yaml().unwrap();
        let again = parse(&printed).and_then(|it| it.mean(&paths));
        let again = again.map_err(|error| TestCaseError::fail(format!("{text}\nprinted as\n{printed}\n{error:#}")))?;
        prop_assert_eq!(again.to_settings().to_yaml().unwrap(), printed, "{}", text);
    }
}
