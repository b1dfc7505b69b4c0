package main

import (
	"errors"
	"flag"
)

// Config has the settings of the workspace service beside those that all services share.
type Config struct {
	// Workers is how many Workspaces are looked at at a time; default 8.
	Workers int
	// MaxDriftPlans is how many drift plans run at a time; default 10.
	MaxDriftPlans int
}

// NewDefaultConfig has the defaults.
func NewDefaultConfig() Config { return Config{Workers: 8, MaxDriftPlans: 10} }

// BindFlags makes a flag of each setting.
func (c *Config) BindFlags(flags *flag.FlagSet) {
	flags.IntVar(&c.Workers, "workers", c.Workers, "Workspaces that are looked at at a time")
	flags.IntVar(&c.MaxDriftPlans, "max-drift-plans", c.MaxDriftPlans, "drift plans that run at a time; the others wait for their turn, the most overdue first")
}

// Validate joins everything that is wrong.
func (c *Config) Validate() error {
	var wrong []error
	if c.Workers < 1 {
		wrong = append(wrong, errors.New("--workers must be at least 1"))
	}
	if c.MaxDriftPlans < 1 {
		wrong = append(wrong, errors.New("--max-drift-plans must be at least 1: to look for drift less often, set the annotation magosproject.io/reconcile-interval"))
	}
	return errors.Join(wrong...)
}
