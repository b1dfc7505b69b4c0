package executor

import (
	"io"
	"path/filepath"
	"time"

	"magosproject.io/services/runner/internal/executor/landlock"
	"magosproject.io/services/runner/internal/executor/seal"
	"magosproject.io/services/runner/internal/executor/toolchain"
	"magosproject.io/services/runner/internal/runspec"
)

// Paths are where a container finds things. Only tests use others than NewDefaultConfig names.
type Paths struct {
	// Data is the Workspace's volume.
	Data string
	// Instructions is a file; the others are folders, but for TerminationLog.
	Instructions, Variables, Locks, Signals, Shown, Scratch, ImageTools string
	// Repositories holds the repository Secrets, Credentials is a folder in memory; keeper alone has them.
	Repositories, Credentials string
	// TerminationLog takes the last words of the container.
	TerminationLog string
}

// Config of one container.
type Config struct {
	Paths Paths
	// Environment of the container, as NAME=value.
	Environment []string
	// Stdout takes the tool's output, Stderr what magos-exec itself says. Run writes both to Stdout, as one stream.
	Stdout, Stderr io.Writer
	// Self starts magos-exec; git calls it for credentials.
	Self string
	// Landlock says whether the kernel can keep files from programs that are started.
	Landlock bool
	// Sites are asked for tools that are nowhere else.
	Sites map[string]toolchain.Site
	// Poll is how often a wait looks, Progress how often it says what it waits for.
	Poll, Progress time.Duration
	// PeerStart is how long another container may take to start after this one needs it.
	PeerStart time.Duration
	// ShowTimeout is how long rendering the sealed plan may take.
	ShowTimeout time.Duration
	// SealLimits bound the working copy, ShownLimit the rendered plan in bytes.
	SealLimits seal.Limits
	ShownLimit int64
}

// NewDefaultConfig returns the Config of a container in a run pod; the caller adds the environment and the streams.
func NewDefaultConfig() Config {
	return Config{
		Paths: Paths{
			Data: runspec.DataDir, Instructions: runspec.InstructionsFile, Variables: runspec.VariablesDir,
			Locks: runspec.LocksDir, Signals: runspec.SignalsDir, Shown: runspec.ShownDir, Scratch: runspec.ScratchDir,
			ImageTools: runspec.ImageToolsDir, TerminationLog: runspec.TerminationLog,
			Repositories: runspec.RepositoriesDir, Credentials: runspec.CredentialsDir,
		},
		Self:        runspec.ExecutablePath,
		Landlock:    landlock.Available(),
		Sites:       toolchain.OfficialSites(),
		Poll:        50 * time.Millisecond,
		Progress:    30 * time.Second,
		PeerStart:   10 * time.Minute,
		ShowTimeout: 15 * time.Minute,
		SealLimits:  seal.Limits{Bytes: 4 << 30, Entries: 500_000},
		ShownLimit:  1 << 30,
	}
}

// Names inside the folder of a run. The plan lies beside the checkout, where no file of the repository can be.
const (
	sourceName = "source"
	planName   = "plan.tfplan"
	// keptName holds what keeper's own init left, until it is sealed.
	keptName      = "kept"
	claimMark     = "applied"
	erroredState  = "errored.tfstate"
	dataName      = ".terraform"
	providersName = "providers"
	lockFileName  = ".terraform.lock.hcl"
	shownJSON     = "plan.json"
	shownText     = "plan.txt"
)

func (p Paths) tools() string            { return filepath.Join(p.Data, runspec.SubPathTools) }
func (p Paths) pluginCache() string      { return filepath.Join(p.Data, runspec.SubPathPluginCache) }
func (p Paths) runs() string             { return filepath.Join(p.Data, runspec.SubPathRuns) }
func (p Paths) work(runID string) string { return filepath.Join(p.Data, runspec.SubPathWork(runID)) }
func (p Paths) sealed(runID string) string {
	return filepath.Join(p.Data, runspec.SubPathSealed(runID))
}
func (p Paths) claim(runID string) string    { return filepath.Join(p.Data, runspec.SubPathClaim(runID)) }
func (p Paths) checkout(runID string) string { return filepath.Join(p.work(runID), sourceName) }
func (p Paths) plan(runID string) string     { return filepath.Join(p.work(runID), planName) }
