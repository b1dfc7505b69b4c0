package executor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"

	"magosproject.io/services/runner/internal/runspec"
)

// maxBackendBytes bounds what init remembers of a backend: its type and its settings.
const maxBackendBytes = 1 << 20

// requireBackend refuses a module whose state would lie in the working copy. That does not outlive the run, so the next
// run would find no state and create everything a second time.
func requireBackend(dir string) error {
	const advice = "declare a backend that keeps it, such as s3, gcs, azurerm, pg, http or kubernetes"
	kind, where, err := rememberedBackend(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return failf(runspec.ExitToolFailed, reasonPlanFailed, "the module declares no backend, so that its state would be lost when the run ends and the next run would create everything again: %s", advice)
	case err != nil:
		return fail(runspec.ExitToolFailed, reasonPlanFailed, err)
	case kind == "local" && !path.IsAbs(where):
		return failf(runspec.ExitToolFailed, reasonPlanFailed, "the module's backend \"local\" keeps the state in the working copy (path %q), where it would be lost when the run ends: %s", where, advice)
	}
	return nil
}

// rememberedBackend reads what init wrote down of the backend: its type, and the path of one that is "local".
func rememberedBackend(dir string) (kind, where string, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", "", fmt.Errorf("opening the module: %w", err)
	}
	defer func() { _ = root.Close() }()
	file, err := root.Open(path.Join(dataName, "terraform.tfstate"))
	if err != nil {
		return "", "", fmt.Errorf("reading what init remembers of the backend: %w", err)
	}
	defer func() { _ = file.Close() }()
	var remembered struct {
		Backend *struct {
			Type   string `json:"type"`
			Config struct {
				Path string `json:"path"`
			} `json:"config"`
		} `json:"backend"`
	}
	if err := json.NewDecoder(io.LimitReader(file, maxBackendBytes)).Decode(&remembered); err != nil {
		return "", "", fmt.Errorf("reading what init remembers of the backend: %w", err)
	}
	if remembered.Backend == nil {
		return "", "", fmt.Errorf("reading what init remembers of the backend: %w", fs.ErrNotExist)
	}
	return remembered.Backend.Type, remembered.Backend.Config.Path, nil
}
