// Package explain answers "why is this not moving?" in one sentence, with the chain of facts behind it and a way out. It is
// a pure function over objects: what it says follows from their specs and status alone, and it asks nobody.
package explain
