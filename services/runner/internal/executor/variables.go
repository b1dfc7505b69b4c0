package executor

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"magosproject.io/services/runner/internal/executor/mask"
	"magosproject.io/services/runner/internal/executor/tfvars"
	"magosproject.io/services/runner/internal/runspec"
)

// maxVariable is more than a Secret or a ConfigMap can hold.
const maxVariable = 2 << 20

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*$`)

type variable struct {
	name, value string
	// isLiteral says that the value stands in a VariableSet, where everybody may read it.
	isLiteral bool
}

func (v variable) environment() string { return "TF_VAR_" + v.name + "=" + v.value }

// readVariables returns the input variables that have a value. An optional reference that led nowhere has none, and
// then a file of the module may give one.
func (c *container) readVariables() ([]variable, error) {
	var variables []variable
	for i, name := range c.in.Variables {
		if !variableName.MatchString(name) {
			return nil, fmt.Errorf("reading variable %q: that is no name of a variable", name)
		}
		// Kubernetes makes these files links into a folder of its own; only Kubernetes writes here.
		value, err := readLimited(filepath.Join(c.cfg.Paths.Variables, strconv.Itoa(i)), maxVariable)
		if errors.Is(err, fs.ErrNotExist) {
			c.log.Info("an optional variable has no value", "variable", name)
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading variable %s: %w", name, err)
		}
		if bytes.IndexByte(value, 0) >= 0 {
			return nil, failf(runspec.ExitToolFailed, reasonPlanFailed, "variable %s holds a NUL byte, which no environment can carry", name)
		}
		variables = append(variables, variable{name, string(value), slices.Contains(c.in.Literals, name)})
	}
	return variables, nil
}

func readLimited(name string, limit int64) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	data, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("it has more than %d bytes", limit)
	}
	return data, err
}

// confidential returns the values that must not be printed, and notes the ones that are too short to be recognised.
func (c *container) confidential(variables []variable) []string {
	var values []string
	for _, v := range variables {
		if v.isLiteral {
			continue
		}
		if length := len(strings.TrimSpace(v.value)); length > 0 && length < mask.MinLength {
			c.log.Warn("a value is too short to be masked where it is printed", "variable", v.name, "shortest", mask.MinLength)
			continue
		}
		values = append(values, v.value)
	}
	return values
}

// prepareVariables takes the variables out of the module's own files and chooses how each reaches the tool.
func (c *container) prepareVariables(ready fetched, variables []variable) (given, tfvars.Declared, error) {
	checkout, err := os.OpenRoot(c.cfg.Paths.checkout(c.in.RunID))
	if err != nil {
		return given{}, nil, fmt.Errorf("opening the checkout: %w", err)
	}
	defer func() { _ = checkout.Close() }()
	if err := c.shadow(checkout, ready, variables); err != nil {
		return given{}, nil, err
	}
	declared, err := tfvars.Declarations(checkout, ready.Module, c.in.Engine)
	if err != nil {
		return given{}, nil, err
	}
	g, err := c.give(variables, declared)
	return g, declared, err
}

// shadow takes the variables out of the module's own files, which would win over the environment, and those of tfvarsPath
// out of the files that the tools read by themselves: at apply tfvarsPath is not given again, and OpenTofu refuses the plan
// where it finds another value than the plan has.
func (c *container) shadow(checkout *os.Root, ready fetched, variables []variable) error {
	files, err := tfvars.Files(checkout, ready.Module, ready.TfvarsFile)
	if err != nil {
		return err
	}
	names := make([]string, len(variables))
	for i, v := range variables {
		names[i] = v.name
	}
	if err := c.takeOut(checkout, files, slices.Compact(names), "a VariableSet"); err != nil || ready.TfvarsFile == "" {
		return err
	}
	names, err = tfvars.Defined(checkout, ready.TfvarsFile)
	if err != nil {
		return fail(runspec.ExitToolFailed, reasonPlanFailed, err)
	}
	others := slices.DeleteFunc(files, func(file string) bool { return file == ready.TfvarsFile })
	return c.takeOut(checkout, others, names, "tfvarsPath")
}

// takeOut takes names out of files and logs where that changed one.
func (c *container) takeOut(checkout *os.Root, files, names []string, winner string) error {
	shadowed, err := tfvars.Shadow(checkout, files, names)
	if err != nil {
		return fail(runspec.ExitToolFailed, reasonPlanFailed, err)
	}
	for _, s := range shadowed {
		c.log.Info(winner+" overrides the value in a file", "variable", s.Name, "file", s.File)
	}
	return nil
}
