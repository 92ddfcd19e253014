//! How full volumes are, as far as they answer in time.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use crate::measuring::Answer;

/// How long a volume, or its driver, may take to answer: less than clients wait, so that they are told of the others.
pub(super) const TIMEOUT: Duration = Duration::from_secs(5);

/// The answers to these questions, which were all asked already; of those that do not come in time, that.
pub(super) async fn answers<Name: Ord>(
    questions: impl Iterator<Item = (Name, impl Future<Output = Answer>)>,
    within: Duration,
) -> BTreeMap<Name, Answer> {
    let deadline = Instant::now() + within;
    let mut answers = BTreeMap::new();
    for (name, answer) in questions {
        // One that has come is taken, however late it is by now.
        let answer = timeout_at(deadline, answer).await.unwrap_or_else(|_| {
            let seconds = within.as_secs();
            Err(format!("there is no answer after {seconds} s; the file system or the driver may hang"))
        });
        answers.insert(name, answer);
    }
    answers
}

#[cfg(test)]
mod tests {
    use std::future::ready;
    use std::pin::Pin;

    use super::*;
    use crate::plugin::Statistics;

    #[tokio::test]
    async fn a_volume_that_hangs_is_told_of_beside_the_others() {
        type Question = Pin<Box<dyn Future<Output = Answer>>>;
        let questions: [(&str, Question); 3] = [
            ("a", Box::pin(ready(Ok(Statistics::default())))),
            ("b", Box::pin(std::future::pending())),
            ("c", Box::pin(ready(Ok(Statistics::default())))),
        ];
        let answers = answers(questions.into_iter().map(|(name, it)| (name.to_owned(), it)), Duration::ZERO).await;
        let told: Vec<bool> = answers.values().map(Result::is_ok).collect();
        assert_eq!(told, [true, false, true]);
        assert!(answers["b"].as_ref().unwrap_err().starts_with("there is no answer after 0 s"), "{answers:?}");
    }
}
