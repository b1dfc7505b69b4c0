// Package lifecycle decides what happens to one Workspace next. It is pure: Decide looks at a Snapshot and names one
// action, Status says what is to be recorded once that action has had its outcome. It has no client, clock or logger,
// so that every state and every crash between two states can be walked through in a test.
//
// Read Decide first. Its predicates are asked in order and the first that answers wins: a cancelled run, deletion, the litter of old
// approvals, suspension, the live run, the gate, the grant, the inputs, the revision, the schedule.
package lifecycle
