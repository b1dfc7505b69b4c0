package main

import (
	"errors"
	"flag"
)

// Config has the settings of the workspace service beside those that all services share.
type Config struct {
	// Workers is how many Workspaces are looked at at a time; default 8.
	Workers int
}

// NewDefaultConfig has the defaults.
func NewDefaultConfig() Config { return Config{Workers: 8} }

// BindFlags makes a flag of each setting.
func (c *Config) BindFlags(flags *flag.FlagSet) {
	flags.IntVar(&c.Workers, "workers", c.Workers, "Workspaces that are looked at at a time")
}

// Validate joins everything that is wrong.
func (c *Config) Validate() error {
	if c.Workers < 1 {
		return errors.New("--workers must be at least 1")
	}
	return nil
}
