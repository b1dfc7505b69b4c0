package executor

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"magosproject.io/services/runner/internal/executor/tfvars"
)

// maxNames bounds the names in one warning, in bytes, so that all warnings fit into a Record.
const maxNames = 150

// variableWarnings says what a person should know of the variables before the plan is applied. It is keeper's part, since
// what tool says is no fact, and knows names alone.
func (c *container) variableWarnings(module string) ([]string, error) {
	if len(c.in.Variables) == 0 {
		return nil, nil
	}
	checkout, err := os.OpenRoot(c.cfg.Paths.checkout(c.in.RunID))
	if err != nil {
		return nil, fmt.Errorf("opening the checkout: %w", err)
	}
	defer func() { _ = checkout.Close() }()
	declared, err := tfvars.Declarations(checkout, module, c.in.Engine)
	if err != nil {
		return nil, err
	}
	var undeclared, shown []string
	for _, name := range c.in.Variables {
		switch declaration, isDeclared := declared[name]; {
		case !isDeclared:
			undeclared = append(undeclared, name)
		case !declaration.Sensitive && slices.Contains(c.in.Secrets, name):
			shown = append(shown, name)
		}
	}
	var warnings []string
	if len(undeclared) > 0 {
		warnings = append(warnings, "the module does not declare these variables, so their values have no effect: "+listNames(undeclared))
	}
	if len(shown) > 0 {
		warnings = append(warnings, "these variables come from Secrets and the module does not declare them sensitive, so plans may show their values: "+listNames(shown))
	}
	for _, warning := range warnings {
		c.log.Warn(warning)
	}
	return warnings, nil
}

// listNames names as many as fit, and counts the others.
func listNames(names []string) string {
	slices.Sort(names)
	length := 0
	for i, name := range names {
		if length += len(name) + len(", "); length > maxNames {
			return fmt.Sprintf("%s and %d more", strings.Join(names[:i], ", "), len(names)-i)
		}
	}
	return strings.Join(names, ", ")
}
