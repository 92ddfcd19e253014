//! The API: HTTP and JSON on a unix socket, Kubernetes-style objects, streamed watches.
