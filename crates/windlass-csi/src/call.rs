//! One call over a connection, and what is known when it has ended.
//!
//! What tells a refusal from a call whose end is unknown is who said it. Only a status that came over the wire is the
//! driver's; whatever else goes wrong is told by libraries, with codes that could as well be a driver's (C-171).

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::body::{Bytes, Frame, Incoming};
use hyper::header::{HeaderMap, HeaderValue, USER_AGENT};
use hyper::http::uri::PathAndQuery;
use hyper::{Request, Response, Uri};
use tonic::body::Body;
use tonic::client::Grpc;
use tonic::codegen::{Body as HttpBody, Service};
use tonic::{Code, Status};
use tonic_prost::ProstCodec;

use crate::End;
use crate::connection::{Broken, Connection, Stage};

/// A call that failed, in words that are not fit to be shown yet.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: Code,
    pub(crate) end: End,
    pub(crate) message: String,
    pub(crate) lied: bool,
}

/// Nobody waits longer for an answer, and no longer time can be told to a driver.
const DEADLINE_MAX: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Calls a method and waits for its answer, not longer than `deadline`; the driver is told how long that is.
pub(crate) async fn unary<Q, A>(
    connection: &Arc<Connection>,
    path: &'static str,
    request: Q,
    deadline: Duration,
    message_bytes_max: usize,
) -> Result<A, Failure>
where
    Q: prost::Message + 'static,
    A: prost::Message + Default + 'static,
{
    let deadline = deadline.min(DEADLINE_MAX);
    let course = Arc::new(Mutex::new(Course::default()));
    let caller = Caller { connection: connection.clone(), course: course.clone() };
    // Servers refuse a socket's path as the name of who is called (C-44).
    let mut grpc =
        Grpc::with_origin(caller, Uri::from_static("http://localhost")).max_decoding_message_size(message_bytes_max);
    let mut request = tonic::Request::new(request);
    request.set_timeout(deadline);
    let call = grpc.unary(request, PathAndQuery::from_static(path), ProstCodec::<Q, A>::default());
    let answer = tokio::time::timeout(deadline, call).await;
    let course = std::mem::take(&mut *lock(&course));
    match answer {
        Ok(Ok(answer)) if course.status == Some(0) => Ok(answer.into_inner()),
        Ok(Ok(_)) => Err(course.nonsense("the answer has no status that can be read".to_string())),
        Ok(Err(status)) => Err(course.failure(&status)),
        Err(_) => Err(course.late(connection, deadline)),
    }
}

/// What has been seen of a call.
#[derive(Default)]
struct Course {
    /// The connection that it went to, if anything was sent.
    sent: Option<u64>,
    /// What went wrong with the connection.
    broken: Option<Broken>,
    /// The status that came over the wire.
    status: Option<i32>,
}

impl Course {
    fn failure(self, status: &Status) -> Failure {
        let Self { sent, broken, status: number } = &self;
        match (broken, sent, number) {
            (Some(Broken { message, stranger }), None, _) => {
                let (code, end) = (Code::Unavailable, End::NotSent);
                Failure { code, end, message: message.clone(), lied: *stranger }
            }
            (_, _, Some(number)) if *number != 0 => {
                let code = Code::from_i32(*number);
                Failure { code, end: End::of(code), message: status.message().to_string(), lied: false }
            }
            (Some(Broken { message, .. }), Some(_), _) => {
                Failure { code: Code::Unavailable, end: End::Unknown, message: message.clone(), lied: false }
            }
            (None, _, _) => self.nonsense(format!("the answer makes no sense: {}", status.message())),
        }
    }

    fn nonsense(&self, message: String) -> Failure {
        Failure { code: Code::Internal, end: End::Unknown, message, lied: true }
    }

    fn late(self, connection: &Connection, deadline: Duration) -> Failure {
        match self.sent {
            None => {
                let message = format!("no connection in {deadline:?}");
                Failure { code: Code::Unavailable, end: End::NotSent, message, lied: false }
            }
            Some(number) => {
                // Perhaps it is the connection that hangs, or the process behind it: the next call goes a new way.
                connection.give_up(number);
                let message = format!("no answer in {deadline:?}");
                Failure { code: Code::DeadlineExceeded, end: End::Unknown, message, lied: false }
            }
        }
    }
}

fn lock(course: &Mutex<Course>) -> MutexGuard<'_, Course> {
    course.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Notes the status in headers or trailers. One that is no number is none.
fn note_status(course: &Mutex<Course>, headers: &HeaderMap) {
    if let Some(status) = headers.get("grpc-status") {
        lock(course).status = status.to_str().ok().and_then(|it| it.parse().ok());
    }
}

/// Makes one call, and notes its course.
struct Caller {
    connection: Arc<Connection>,
    course: Arc<Mutex<Course>>,
}

/// The status says nothing that is not noted already.
#[derive(Debug, thiserror::Error)]
#[error("the call went wrong")]
struct Noted;

impl Service<Request<Body>> for Caller {
    type Response = Response<ResponseBody>;
    type Error = Noted;
    type Future = Pin<Box<dyn Future<Output = Result<Response<ResponseBody>, Noted>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Noted>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        const AGENT: HeaderValue = HeaderValue::from_static(concat!("windlass/", env!("CARGO_PKG_VERSION")));
        request.headers_mut().insert(USER_AGENT, AGENT);
        let Self { connection, course } = self;
        let (connection, course) = (connection.clone(), course.clone());
        Box::pin(async move {
            let note = |stage| {
                lock(&course).sent = match stage {
                    Stage::NotSent => None,
                    Stage::Sent(number) => Some(number),
                };
            };
            match connection.send(request, note).await {
                Ok(answer) => {
                    note_status(&course, answer.headers());
                    Ok(answer.map(|body| ResponseBody { body, course }))
                }
                Err(trouble) => {
                    lock(&course).broken = Some(trouble);
                    Err(Noted)
                }
            }
        })
    }
}

/// The body of an answer. Notes the status that it ends with, or that it does not end.
struct ResponseBody {
    body: Incoming,
    course: Arc<Mutex<Course>>,
}

impl HttpBody for ResponseBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        match &frame {
            Some(Ok(frame)) => {
                if let Some(trailers) = frame.trailers_ref() {
                    note_status(&self.course, trailers);
                }
            }
            Some(Err(error)) => {
                let message = format!("the connection was lost in mid-answer: {error}");
                lock(&self.course).broken = Some(Broken { message, stranger: false });
            }
            None => {}
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }
}
