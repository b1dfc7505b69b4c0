package runspec

import "path"

// Mount paths. They are the same in every container that has the mount at all; which container has which, and
// whether it may write, is what keeps the module's code away from the plan that is judged and applied:
//
//	                     keeper  tool  show  apply's tool
//	DataDir/tools          rw     ro    ro     ro
//	DataDir/plugin-cache   rw     ro    ro     ro
//	DataDir/runs           rw     -     -      -
//	RunDir/work            (rw)   rw    -      rw, an emptyDir
//	RunDir/sealed          (rw)   -     ro     ro
//	RunDir/claim           -      -     -      rw
//	LocksDir               rw     rw    rw     -
//	SignalsDir             rw     ro    ro     -
//	ShownDir               rw     -     rw     -
//	VariablesDir           -      ro    -      (ro)
//	RepositoriesDir        ro     -     -      -
//	CredentialsDir         rw     -     -      -, in memory
//	InstructionsDir        ro     ro    ro     ro
//	ScratchDir             rw, an emptyDir of each container's own
//
// An apply gives the tool the ephemeral variables alone. The values of all are mounted so that they are masked in the output.
const (
	// ExecutablePath is where a run image has magos-exec; the container's command is it and one argument.
	ExecutablePath = "/usr/local/bin/magos-exec"
	// DataDir is where the Workspace's volume appears, by subPaths.
	DataDir = "/workspace-data"
	// InstructionsDir holds InstructionsFile.
	InstructionsDir = "/magos/run"
	// InstructionsFile holds Instructions as JSON.
	InstructionsFile = InstructionsDir + "/instructions.json"
	// VariablesDir holds one file per variable, named by its index.
	VariablesDir = "/magos/variables"
	// RepositoriesDir holds a folder per repository Secret of the namespace, named like it, with a file per key.
	RepositoriesDir = "/magos/repositories"
	// CredentialsDir is where keeper lays out what ssh reads from files only; it lies in memory.
	CredentialsDir = "/magos/credentials"
	// LocksDir holds one file per container; its executor holds an exclusive flock on it from start to exit.
	LocksDir = "/magos/locks"
	// SignalsDir is where keeper tells the others how far it is.
	SignalsDir = "/magos/signals"
	// ShownDir is where show leaves the plan as JSON and as text; it lies in memory.
	ShownDir = "/magos/shown"
	// ScratchDir is the container's own HOME and TMPDIR.
	ScratchDir = "/magos/scratch"
	// TerminationLog is where a container leaves its last words.
	TerminationLog = "/dev/termination-log"
	// ImageToolsDir is where a run image may bring tools: <engine>/<version>/<binary>.
	ImageToolsDir = "/opt/magos/tools"
)

// Folders of the Workspace's volume, as subPaths.
const (
	// SubPathTools has the tools: <engine>/<version>/<binary>.
	SubPathTools = "tools"
	// SubPathPluginCache has the providers.
	SubPathPluginCache = "plugin-cache"
	// SubPathRuns has a folder per run.
	SubPathRuns = "runs"
)

// Signals of keeper.
const (
	// SignalFetched says that the working copy is ready for tool.
	SignalFetched = "fetched"
	// SignalSealed says that the seal is ready for show; its content is the seal's digest.
	SignalSealed = "sealed"
)

// RunDir is the folder of a run.
func RunDir(runID string) string { return path.Join(DataDir, SubPathRuns, runID) }

// SubPathWork is the run's working copy, which the module's code may change.
func SubPathWork(runID string) string { return path.Join(SubPathRuns, runID, "work") }

// SubPathSealed is the run's plan and the working copy that belongs to it, as keeper sealed them.
func SubPathSealed(runID string) string { return path.Join(SubPathRuns, runID, "sealed") }

// SubPathClaim holds the mark that the plan was used.
func SubPathClaim(runID string) string { return path.Join(SubPathRuns, runID, "claim") }
