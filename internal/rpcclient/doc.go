// Package rpcclient calls other Magos services: TLS against the bundle of the moment, a token that is read again for each call,
// deadlines, retries of what is idempotent, and errors in the vocabulary of package rpcerr.
package rpcclient
