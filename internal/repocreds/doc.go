// Package repocreds says which credential a Git repository is reached with, given the Secrets of one namespace that carry the label
// magosproject.io/secret-type=repository. The refwatcher and the pods of runs use the same rules, so that whatever can be watched can be fetched.
// It decides only: no network, no clock, no Kubernetes client.
//
// A Secret has repoURL, and of these exactly one kind:
//   - username and password, for https and http;
//   - sshPrivateKey, and knownHosts to verify the server with, for ssh;
//   - githubAppID, githubAppInstallationID, githubAppPrivateKey, and githubAppBaseURL where it cannot be guessed, for https and http.
//
// repoURL is the URL of one repository, or where the URLs of several begin: up to a path segment, or a host alone. The longest that fits wins, so that
// a Secret for one repository goes before the one for its group. Scheme, host and port must be equal; a trailing .git does not count.
package repocreds
