package runspec

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Exit codes of magos-exec. They are facts, unlike the text a container leaves: nothing that module code prints changes them.
const (
	// ExitOK: the container did what it is for.
	ExitOK = 0
	// ExitToolFailed: the tool ended with an error of its own.
	ExitToolFailed = 1
	// ExitInternal: magos-exec itself failed, or was told nonsense.
	ExitInternal = 70
	// ExitSealBroken: the seal is not what the instructions say; the tool was not run.
	ExitSealBroken = 71
	// ExitAlreadyUsed: the plan was claimed before; the tool was not run.
	ExitAlreadyUsed = 72
	// ExitTimedOut: the tool was interrupted at the timeout.
	ExitTimedOut = 73
	// ExitInterrupted: the tool was interrupted because the pod was asked to end.
	ExitInterrupted = 74
	// ExitFetchFailed: the repository, a module or a provider could not be fetched.
	ExitFetchFailed = 75
	// ExitToolUnavailable: the tool could not be had, or its checksum differs.
	ExitToolUnavailable = 76
	// ExitStorageNotWritable: a folder of the volume cannot be written.
	ExitStorageNotWritable = 77
	// ExitPeerEnded: another container of the pod ended before this one could do its part; that one says why.
	ExitPeerEnded = 78
	// ExitStateLocked: the state is locked by somebody else; nothing was planned or applied.
	ExitStateLocked = 79
	// ExitStalePlan: the tool refused the plan, because the state has changed since.
	ExitStalePlan = 80
	// ExitStorageFull: the volume, or the pod's own storage, is full.
	ExitStorageFull = 81
)

// MaxRecordBytes bounds a Record as JSON; a termination message is cut at 4,096 bytes.
const MaxRecordBytes = 2000

// Outcomes of a plan.
const (
	// OutcomePlanned: a plan was sealed and read.
	OutcomePlanned = "Planned"
	// OutcomeFailed: none was; Reason and Message say why.
	OutcomeFailed = "Failed"
)

// Record is what keeper reports of a plan as its termination message.
type Record struct {
	// Version is Version.
	Version int `json:"v"`
	// RunID of the run.
	RunID string `json:"runID"`
	// Outcome is OutcomePlanned or OutcomeFailed.
	Outcome string `json:"outcome"`
	// Reason is a Workspace reason of the API, set on OutcomeFailed.
	Reason string `json:"reason,omitempty"`
	// Message is for people, set on OutcomeFailed.
	Message string `json:"message,omitempty"`
	// Digest of the seal, set on OutcomePlanned.
	Digest string `json:"digest,omitempty"`
	// Empty says that there is nothing to apply at all.
	Empty bool `json:"empty,omitempty"`
	// Changes counts what the plan would do.
	Changes Changes `json:"changes,omitzero"`
	// Review is the ReviewSum of the review that stands in keeper's log; empty for a plan that is Empty, or where none could be made.
	Review string `json:"review,omitempty"`
	// Drifted are the addresses of resources that changed outside of the tool, as many of DriftedTotal as fit.
	Drifted      []string `json:"drifted,omitempty"`
	DriftedTotal int32    `json:"driftedTotal,omitempty"`
	// Warnings are for people: what they should know before the plan is applied. They hold names and no values.
	Warnings []string `json:"warnings,omitempty"`
}

// Changes counts what a plan would do.
type Changes struct {
	Add     int32 `json:"add,omitempty"`
	Change  int32 `json:"change,omitempty"`
	Destroy int32 `json:"destroy,omitempty"`
	Replace int32 `json:"replace,omitempty"`
	Import  int32 `json:"import,omitempty"`
	Forget  int32 `json:"forget,omitempty"`
	Move    int32 `json:"move,omitempty"`
	Outputs int32 `json:"outputs,omitempty"`
}

// ErrRecord is wrapped by every error of ParseRecord.
var ErrRecord = errors.New("unreadable run record")

// ParseRecord reads a termination message and refuses one that is not wholly a Record of the run runID.
func ParseRecord(message, runID string) (Record, error) {
	var r Record
	if err := json.Unmarshal([]byte(message), &r); err != nil {
		return Record{}, fmt.Errorf("%w: %w", ErrRecord, err)
	}
	switch {
	case r.Version != Version:
		return Record{}, fmt.Errorf("%w: version %d, want %d", ErrRecord, r.Version, Version)
	case r.RunID != runID:
		return Record{}, fmt.Errorf("%w: it is of run %q, want %q", ErrRecord, r.RunID, runID)
	case r.Outcome == OutcomePlanned && r.Digest == "":
		return Record{}, fmt.Errorf("%w: a plan without a digest", ErrRecord)
	case r.Outcome != OutcomePlanned && r.Outcome != OutcomeFailed:
		return Record{}, fmt.Errorf("%w: outcome %q", ErrRecord, r.Outcome)
	}
	return r, nil
}
