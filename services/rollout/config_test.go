package main

import (
	"flag"
	"testing"
	"time"
)

func TestConfig(t *testing.T) {
	for name, test := range map[string]struct {
		arguments []string
		valid     bool
	}{
		"the defaults":              {nil, true},
		"everything set":            {[]string{"--workers=8", "--status-interval=500ms"}, true},
		"no workers":                {[]string{"--workers=0"}, false},
		"too many workers":          {[]string{"--workers=65"}, false},
		"no status interval":        {[]string{"--status-interval=0s"}, false},
		"a status interval of ages": {[]string{"--status-interval=2m"}, false},
	} {
		c := NewDefaultConfig()
		flags := flag.NewFlagSet("rollout", flag.ContinueOnError)
		c.BindFlags(flags)
		if err := flags.Parse(test.arguments); err != nil {
			t.Fatal(err)
		}
		if err := c.Validate(); (err == nil) != test.valid {
			t.Errorf("%s: %v", name, err)
		}
	}
	if c := NewDefaultConfig(); c.Workers != 4 || c.StatusInterval != 2*time.Second {
		t.Errorf("the defaults are %+v", c)
	}
}
