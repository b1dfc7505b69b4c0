// Package rpcserver is the gRPC server of every Magos service: TLS, health, reflection, who calls (TokenReview), whether they
// may (SubjectAccessReview), deadlines, one error vocabulary, metrics, an access log, and an end that lets calls finish.
// A method that no Rule names, and a Rule that names no method, keep the server from starting.
package rpcserver
