package executor

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"magosproject.io/services/runner/internal/executor/beneath"
	"magosproject.io/services/runner/internal/executor/tfvars"
)

const (
	// confidentialName is a file beside the plan. It is sealed with it.
	confidentialName = "confidential.json"
	maxConfidential  = 256 << 20
)

// zipMagic is how a plan begins that its tool has not encrypted.
var zipMagic = []byte("PK\x03\x04")

// keepConfidential keeps beside the plan the values that its apply has to mask: by then they may be rotated and known to
// nobody else, and the plan still carries them. It tells nothing that the plan does not hold in clear: nothing is kept
// of ephemeral variables, which are in no plan.
func (c *container) keepConfidential(variables []variable, declared tfvars.Declared) error {
	work, err := beneath.OpenDir(c.cfg.Paths.work(c.in.RunID))
	if err != nil {
		return fmt.Errorf("looking at the plan: %w", err)
	}
	defer func() { _ = work.Close() }()
	isPlain, err := beginsWith(work, planName, zipMagic)
	if err != nil {
		// keeper refuses what is no plan, and says what it is.
		c.log.Warn("the plan cannot be looked at: nothing is kept beside it", "error", err)
		return nil
	}
	if !isPlain {
		// keeper refuses it too.
		return nil
	}
	var values []string
	for _, v := range variables {
		if declaration, isDeclared := declared[v.name]; isDeclared && !declaration.Ephemeral && !v.isLiteral {
			values = append(values, v.value)
		}
	}
	if len(values) == 0 {
		return nil
	}
	content, err := json.Marshal(values)
	if err != nil {
		return fmt.Errorf("keeping what an apply masks: %w", err)
	}
	name := filepath.Join(c.cfg.Paths.work(c.in.RunID), confidentialName)
	if err := os.RemoveAll(name); err != nil {
		return fmt.Errorf("keeping what an apply masks: %w", err)
	}
	if err := os.WriteFile(name, content, 0o440); err != nil {
		return fmt.Errorf("keeping what an apply masks: %w", err)
	}
	return nil
}

// beginsWith reads no more than the first bytes. The module's code may have put a pipe or a link in the file's place: it is opened like
// everything that this code could have written.
func beginsWith(work *beneath.Dir, name string, magic []byte) (bool, error) {
	file, err := work.OpenRegular(name)
	if err != nil {
		return false, err
	}
	defer func() { _ = file.Close() }()
	begin := make([]byte, len(magic))
	if _, err := io.ReadFull(file, begin); err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return false, err
	}
	return bytes.Equal(begin, magic), nil
}

// keptConfidential reads what keepConfidential kept, in the copy of the seal. The plan's module code could have written
// something else: that only makes less or more be masked of what the same code prints, and is no reason not to apply.
func (c *container) keptConfidential() []string {
	work, err := beneath.OpenDir(c.cfg.Paths.work(c.in.RunID))
	if err != nil {
		c.log.Warn("reading what to mask", "error", err)
		return nil
	}
	defer func() { _ = work.Close() }()
	content, err := work.ReadFile(confidentialName, maxConfidential)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var values []string
	if err == nil {
		err = json.Unmarshal(content, &values)
	}
	if err != nil {
		c.log.Warn("what the plan's variables held cannot be read; only present values are masked", "error", err)
	}
	return values
}
