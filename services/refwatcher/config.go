package main

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"time"

	"magosproject.io/services/refwatcher/internal/remote"
	"magosproject.io/services/refwatcher/internal/schedule"
	"magosproject.io/services/refwatcher/internal/webhook"
)

// Config has the settings of the refwatcher beside those that all services share.
type Config struct {
	// GitSchemes that repository URLs may have; default all that are spoken: https, ssh, http, git.
	GitSchemes []string
	// GitAllowLocalAddresses permits remotes at loopback, link-local and cloud metadata addresses; default false.
	GitAllowLocalAddresses bool
	// GitTimeout of one listing of a remote's refs; default 20 s.
	GitTimeout time.Duration
	// GitMaxListBytes of one listing; default 64 MiB, about 800,000 refs.
	GitMaxListBytes int64
	// GitPolls that may run at a time; default 64.
	GitPolls int
	// GitPollsPerHost that may run at a time, and the same again for callers of ResolveRevision on each replica; default 8.
	GitPollsPerHost int
	// GitMaxBackoff is the longest time between two polls of a remote that fails, unless its interval is longer; default 2 min.
	GitMaxBackoff time.Duration
	// WebhookListen is the address for push webhooks, such as ":8090"; default empty: none are taken.
	WebhookListen string
	// WebhookKeyDir is the folder of the keys of webhooks, one a file; default /var/run/secrets/magos/webhook.
	WebhookKeyDir string
	// WebhookMaxBodyBytes of one webhook; default 4 MiB.
	WebhookMaxBodyBytes int64
}

// NewDefaultConfig has the defaults.
func NewDefaultConfig() Config {
	return Config{
		GitSchemes: slices.Clone(remote.Schemes), GitTimeout: 20 * time.Second, GitMaxListBytes: 64 << 20,
		GitPolls: 64, GitPollsPerHost: 8, GitMaxBackoff: 2 * time.Minute,
		WebhookKeyDir: "/var/run/secrets/magos/webhook", WebhookMaxBodyBytes: 4 << 20,
	}
}

// BindFlags makes a flag of each setting.
func (c *Config) BindFlags(flags *flag.FlagSet) {
	flags.Func("git-schemes", "schemes that repository URLs may have, separated by commas; default "+strings.Join(c.GitSchemes, ","), func(value string) error {
		c.GitSchemes = strings.Split(value, ",")
		return nil
	})
	flags.BoolVar(&c.GitAllowLocalAddresses, "git-allow-local-addresses", c.GitAllowLocalAddresses, "permit remotes at loopback, link-local and cloud metadata addresses")
	flags.DurationVar(&c.GitTimeout, "git-timeout", c.GitTimeout, "how long listing the refs of a remote may take")
	flags.Int64Var(&c.GitMaxListBytes, "git-max-list-bytes", c.GitMaxListBytes, "how long the list of refs of a remote may be, in bytes")
	flags.IntVar(&c.GitPolls, "git-polls", c.GitPolls, "polls of remotes at a time")
	flags.IntVar(&c.GitPollsPerHost, "git-polls-per-host", c.GitPollsPerHost, "polls of remotes of one host at a time")
	flags.DurationVar(&c.GitMaxBackoff, "git-max-backoff", c.GitMaxBackoff, "longest time between two polls of a remote that fails")
	flags.StringVar(&c.WebhookListen, "webhook-listen", c.WebhookListen, "address for push webhooks; empty: none are taken")
	flags.StringVar(&c.WebhookKeyDir, "webhook-key-dir", c.WebhookKeyDir, "folder with the keys of webhooks, one a file")
	flags.Int64Var(&c.WebhookMaxBodyBytes, "webhook-max-body-bytes", c.WebhookMaxBodyBytes, "how long the body of a webhook may be, in bytes")
}

// Validate joins everything that is wrong.
func (c *Config) Validate() error {
	var errs []error
	if len(c.GitSchemes) == 0 {
		errs = append(errs, errors.New("--git-schemes is empty"))
	}
	for _, scheme := range c.GitSchemes {
		if !slices.Contains(remote.Schemes, scheme) {
			errs = append(errs, fmt.Errorf("--git-schemes: %q is none of %s", scheme, strings.Join(remote.Schemes, ", ")))
		}
	}
	if c.GitTimeout <= 0 || c.GitTimeout > 4*time.Minute {
		errs = append(errs, fmt.Errorf("--git-timeout (%s) must be positive and 4m at most", c.GitTimeout))
	}
	if c.GitMaxListBytes <= 0 {
		errs = append(errs, fmt.Errorf("--git-max-list-bytes (%d) must be positive", c.GitMaxListBytes))
	}
	if c.GitPollsPerHost <= 0 || c.GitPolls < c.GitPollsPerHost {
		errs = append(errs, fmt.Errorf("want --git-polls (%d) >= --git-polls-per-host (%d) > 0", c.GitPolls, c.GitPollsPerHost))
	}
	if c.GitMaxBackoff <= 0 {
		errs = append(errs, fmt.Errorf("--git-max-backoff (%s) must be positive", c.GitMaxBackoff))
	}
	if c.WebhookMaxBodyBytes <= 0 || c.WebhookMaxBodyBytes > webhook.MaxBodyLimit {
		errs = append(errs, fmt.Errorf("--webhook-max-body-bytes (%d) must be positive and %d at most", c.WebhookMaxBodyBytes, webhook.MaxBodyLimit))
	}
	return errors.Join(errs...)
}

func (c *Config) schedule() schedule.Settings {
	return schedule.Settings{MaxBackoff: c.GitMaxBackoff, MinGap: schedule.MinInterval, PerHost: c.GitPollsPerHost, Total: c.GitPolls, Jitter: 0.1, Patience: schedule.DefaultPatience}
}

func (c *Config) remote(now func() time.Time) remote.Config {
	return remote.Config{Schemes: c.GitSchemes, AllowLocalAddresses: c.GitAllowLocalAddresses, Timeout: c.GitTimeout, MaxBytes: c.GitMaxListBytes, Now: now}
}
