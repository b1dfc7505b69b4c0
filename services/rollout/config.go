package main

import (
	"errors"
	"flag"
	"fmt"
	"time"
)

// Config has the settings of the rollout service beside those that all services share.
type Config struct {
	// Workers is how many Projects are decided on at a time; default 4.
	Workers int
	// StatusInterval is the shortest time between two writes of one status that differ in counts and messages only; default 2 s.
	StatusInterval time.Duration
}

// NewDefaultConfig has the defaults.
func NewDefaultConfig() Config {
	return Config{Workers: 4, StatusInterval: 2 * time.Second}
}

// BindFlags makes a flag of each setting.
func (c *Config) BindFlags(flags *flag.FlagSet) {
	flags.IntVar(&c.Workers, "workers", c.Workers, "Projects that are decided on at a time")
	flags.DurationVar(&c.StatusInterval, "status-interval", c.StatusInterval, "shortest time between two writes of a status that differ in counts and messages only")
}

// Validate joins everything that is wrong.
func (c *Config) Validate() error {
	var errs []error
	if c.Workers < 1 || c.Workers > 64 {
		errs = append(errs, fmt.Errorf("--workers (%d) must be from 1 to 64", c.Workers))
	}
	if c.StatusInterval <= 0 || c.StatusInterval > time.Minute {
		errs = append(errs, fmt.Errorf("--status-interval (%s) must be positive and 1m at most", c.StatusInterval))
	}
	return errors.Join(errs...)
}
