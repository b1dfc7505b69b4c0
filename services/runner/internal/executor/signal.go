package executor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"magosproject.io/services/runner/internal/executor/beneath"
)

const maxSignal = 64 << 10

// fetched is what keeper tells tool with runspec.SignalFetched.
type fetched struct {
	// Module is the module's folder in the checkout, without links. TfvarsFile is relative to the checkout, or empty.
	Module     string `json:"module"`
	TfvarsFile string `json:"tfvarsFile,omitempty"`
	// Tool is the absolute path of the binary.
	Tool string `json:"tool"`
}

// writeSignal gives a signal whole: it appears under its name with all of its content.
func writeSignal(folder, name string, content []byte) error {
	temporary := filepath.Join(folder, "."+name)
	if err := os.WriteFile(temporary, content, 0o640); err != nil {
		return fmt.Errorf("signalling %s: %w", name, err)
	}
	if err := os.Rename(temporary, filepath.Join(folder, name)); err != nil {
		return fmt.Errorf("signalling %s: %w", name, err)
	}
	return nil
}

// readSignal returns nil while the signal was not given.
func readSignal(folder, name string) ([]byte, error) {
	dir, err := beneath.OpenDir(folder)
	if err != nil {
		return nil, fmt.Errorf("reading signal %s: %w", name, err)
	}
	defer func() { _ = dir.Close() }()
	content, err := dir.ReadFile(name, maxSignal)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading signal %s: %w", name, err)
	}
	return content, nil
}

func parseFetched(content []byte) (fetched, error) {
	var f fetched
	if err := json.Unmarshal(content, &f); err != nil {
		return fetched{}, fmt.Errorf("reading keeper's signal: %w", err)
	}
	return f, nil
}
