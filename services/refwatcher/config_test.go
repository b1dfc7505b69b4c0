package main

import (
	"flag"
	"io"
	"strings"
	"testing"
)

func TestConfig(t *testing.T) {
	for name, test := range map[string]struct {
		arguments []string
		says      string
	}{
		"the defaults":                   {},
		"fewer schemes":                  {arguments: []string{"--git-schemes=https,ssh"}},
		"a helper is never a scheme":     {arguments: []string{"--git-schemes=https,ext"}, says: `"ext" is none of`},
		"nor is a folder":                {arguments: []string{"--git-schemes=file"}, says: `"file" is none of`},
		"no scheme":                      {arguments: []string{"--git-schemes="}, says: "--git-schemes"},
		"no time":                        {arguments: []string{"--git-timeout=0s"}, says: "--git-timeout"},
		"more time than a call may last": {arguments: []string{"--git-timeout=5m"}, says: "--git-timeout"},
		"no bytes":                       {arguments: []string{"--git-max-list-bytes=0"}, says: "--git-max-list-bytes"},
		"more per host than in total":    {arguments: []string{"--git-polls=2"}, says: "--git-polls"},
		"webhooks":                       {arguments: []string{"--webhook-listen=:8090"}},
		"webhooks without bodies":        {arguments: []string{"--webhook-max-body-bytes=0"}, says: "--webhook-max-body-bytes"},
		"bodies beyond what memory has":  {arguments: []string{"--webhook-max-body-bytes=1000000000"}, says: "--webhook-max-body-bytes"},
		"no back-off":                    {arguments: []string{"--git-max-backoff=-1s"}, says: "--git-max-backoff"},
	} {
		t.Run(name, func(t *testing.T) {
			config := NewDefaultConfig()
			flags := flag.NewFlagSet("x", flag.ContinueOnError)
			flags.SetOutput(io.Discard)
			config.BindFlags(flags)
			if err := flags.Parse(test.arguments); err != nil {
				t.Fatal(err)
			}
			err := config.Validate()
			if (err != nil) != (test.says != "") || err != nil && !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %v, want %q", err, test.says)
			}
		})
	}
}
