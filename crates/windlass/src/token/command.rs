//! Tokens from a program: whoever has an issuer of tokens already writes a few lines that ask it.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::json;
use windlass_linux::tools::{Call, End, Tool};

use super::{EXPIRATION_SECONDS, Error, Provider, Request, Token};

/// How long a program may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// Asks a program for tokens.
///
/// It gets a `TokenRequest` of the Kubernetes API as JSON on its standard input, with the service account as its name, and
/// prints one that has a `status`. It is started anew for each token, with nothing of our environment.
#[derive(Clone, Debug)]
pub struct Program {
    path: PathBuf,
}

impl Program {
    /// Asks the program at this path, which must be absolute.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    fn failed(&self, text: impl std::fmt::Display) -> Error {
        Error::Provider { text: format!("{}: {text}", self.path.display()) }
    }
}

/// What a program answers; the rest of it is of no interest.
#[derive(Deserialize)]
struct Printed {
    status: Status,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    token: String,
    expiration_timestamp: Timestamp,
}

impl Provider for Program {
    fn token(&self, request: &Request, now: SystemTime) -> Result<Token, Error> {
        let Request { namespace, service_account, audiences, expiration_seconds, pod_name, pod_uid } = request;
        // As an API server has it, whatever the program would give.
        if !EXPIRATION_SECONDS.contains(expiration_seconds) {
            return Err(Error::Life { seconds: *expiration_seconds });
        }
        let question = json!({
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "metadata": {"namespace": namespace, "name": service_account},
            "spec": {
                "audiences": audiences,
                "expirationSeconds": expiration_seconds,
                "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": pod_name, "uid": pod_uid.as_str()},
            },
        });
        let call = Call::new(Tool::at(&self.path), PATIENCE).input(question.to_string());
        let output = call.run().map_err(|error| self.failed(crate::plugin::chain(&error)))?;
        // Its standard output may hold a token, so it is never quoted (I-12).
        if output.end != End::Exit(0) {
            let said = output.stderr.lines().map(str::trim).rfind(|it| !it.is_empty()).unwrap_or("it said nothing");
            return Err(self.failed(format_args!("{}: {said}", output.end)));
        }
        let answer: Printed = serde_json::from_str(&output.stdout).map_err(|_| {
            self.failed("its answer is no TokenRequest with status.token and status.expirationTimestamp")
        })?;
        let expires = SystemTime::from(answer.status.expiration_timestamp);
        if answer.status.token.is_empty() || expires <= now {
            return Err(self.failed("its answer is an empty token, or one that has expired"));
        }
        // The answer does not say when the token was made.
        let life = Duration::from_secs(u64::try_from(*expiration_seconds).unwrap_or_default());
        let issued = expires.checked_sub(life).map_or(now, |it| it.max(now));
        Ok(Token::new(&answer.status.token, issued, expires))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn program(directory: &tempfile::TempDir, script: &str) -> Program {
        let path = directory.path().join("token");
        // Written by a shell of its own: a file that this process has open for writing cannot be run by it, and another
        // test may fork while it is.
        let mut shell = windlass_testing::process::program("/bin/sh")
            .args(["-c", "cat > \"$0\" && chmod 700 \"$0\""])
            .arg(&path)
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        write!(shell.stdin.take().unwrap(), "#!/bin/sh\n{script}\n").unwrap();
        assert!(shell.wait().unwrap().success());
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        Program::new(path)
    }

    fn request() -> Request {
        Request {
            namespace: "default".into(),
            service_account: "robot".into(),
            audiences: vec!["vault".into()],
            expiration_seconds: 3600,
            pod_name: "web".into(),
            pod_uid: "1".into(),
        }
    }

    #[test]
    fn a_program_is_asked_with_a_token_request_and_answers_with_one() {
        let directory = tempfile::tempdir().unwrap();
        let script = r#"read -r request
        case $request in *'"name":"robot"'*) ;; *) echo "who is that?" >&2; exit 1;; esac
        case $request in *'"audiences":["vault"]'*) ;; *) echo "for whom?" >&2; exit 1;; esac
        echo '{"kind": "TokenRequest", "status": {"token": "abc", "expirationTimestamp": "2100-01-01T00:00:00Z"}}'"#;
        let token = program(&directory, script).token(&request(), SystemTime::now()).unwrap();
        assert_eq!(token.text(), "abc");
        assert!(token.expires() > SystemTime::now() + Duration::from_secs(3600));
    }

    /// I-12.
    #[test]
    fn a_program_that_fails_is_quoted_by_what_it_says_on_standard_error_alone() {
        let directory = tempfile::tempdir().unwrap();
        let text = |script: &str| program(&directory, script).token(&request(), SystemTime::now()).unwrap_err().text();
        assert!(
            text("echo hunter2; echo 'the vault is sealed' >&2; exit 3")
                .ends_with("exit status 3: the vault is sealed")
        );
        assert!(text("echo hunter2; exit 3").ends_with("exit status 3: it said nothing"));
        for answer in ["hunter2", "{}", r#"{"status": {"token": "hunter2", "expirationTimestamp": "soon"}}"#] {
            let text = text(&format!("echo '{answer}'"));
            assert!(text.contains("is no TokenRequest") && !text.contains("hunter2"), "{text}");
        }
        let old = r#"echo '{"status": {"token": "hunter2", "expirationTimestamp": "2000-01-01T00:00:00Z"}}'"#;
        assert!(text(old).ends_with("or one that has expired"));
    }

    /// P-125.
    #[test]
    fn a_program_is_not_asked_for_a_life_that_the_api_does_not_take() {
        let directory = tempfile::tempdir().unwrap();
        let program = program(&directory, "echo asked >&2; exit 1");
        for seconds in [0, 599, i64::MAX] {
            let request = Request { expiration_seconds: seconds, ..request() };
            assert_eq!(program.token(&request, SystemTime::now()), Err(Error::Life { seconds }));
        }
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let error = Program::new("/nonexistent/token").token(&request(), SystemTime::now()).unwrap_err();
        assert_eq!(error.text(), "/nonexistent/token: /nonexistent/token is no program");
    }
}
