// Package gitauth gives git its credentials while keeper fetches. An Agent lives in keeper's own process; git reaches it
// through a credential helper, and through a program in the place of ssh, both of which are this binary again. Every URL
// that git asks for, of the repository, of a submodule, of a module, or after a redirect, gets the credential that
// package repocreds has for it, and no other. Secrets are read anew for each question. None is ever in an argument, in an
// environment, in a URL or on a disk: ssh keys lie in a folder in memory that keeper alone has.
package gitauth
