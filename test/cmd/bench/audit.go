package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

// accounts is the prefix of the users that the services are.
const accounts = "system:serviceaccount:magos-system:magos-"

// request is what is read of an event of the API server's audit log.
type request struct {
	Verb       string    `json:"verb"`
	ReceivedAt time.Time `json:"requestReceivedTimestamp"`
	User       struct {
		Username string `json:"username"`
	} `json:"user"`
	Object struct {
		Group       string `json:"apiGroup"`
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
	} `json:"objectRef"`
	Response struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
}

// apart are the resources whose requests are told apart from the rest: what leaders renew, what people read, and what callers are
// checked by.
var apart = map[string]string{
	"leases": "leases", "events": "Events", "tokenreviews": "reviews", "subjectaccessreviews": "reviews",
}

// tally is what the services asked in a while.
type tally struct {
	// counted has the requests that the figures are about, by service.
	counted map[string]int
	// conflicts are those of them that came too late.
	conflicts int
	// others are the requests told apart, by kind; watches are among them.
	others map[string]int
	// lines has every kind of request, for people.
	lines map[string]int
}

func (t tally) sum() (n int) {
	for _, count := range t.counted {
		n += count
	}
	return n
}

// readAudit tallies what the services asked from one moment to another.
func readAudit(file string, from, to time.Time) (tally, error) {
	t := tally{counted: map[string]int{}, others: map[string]int{}, lines: map[string]int{}}
	log, err := os.Open(file)
	if err != nil {
		return t, fmt.Errorf("reading the audit log: %w", err)
	}
	defer func() { _ = log.Close() }()
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, megabyte)
	for lines.Scan() {
		var r request
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return t, fmt.Errorf("reading the audit log: %w", err)
		}
		if r.ReceivedAt.Before(from) || r.ReceivedAt.After(to) {
			continue
		}
		if service, ours := strings.CutPrefix(r.User.Username, accounts); ours {
			t.add(service, r)
		}
	}
	return t, lines.Err()
}

func (t *tally) add(service string, r request) {
	kind, isApart := apart[r.Object.Resource]
	switch {
	case isApart:
		t.others[kind]++
		return
	case r.Verb == "watch":
		t.others["watches that ended"]++
		return
	}
	t.counted[service]++
	resource := r.Object.Resource
	if r.Object.Subresource != "" {
		resource += "/" + r.Object.Subresource
	}
	line := fmt.Sprintf("%s %s %s", service, r.Verb, resource)
	if r.Response.Code == 409 {
		t.conflicts++
		line += " (conflict)"
	}
	if r.Response.Code >= 400 && r.Response.Code != 409 {
		line += fmt.Sprintf(" (%d)", r.Response.Code)
	}
	t.lines[line]++
}

// describe writes what was asked, the most frequent first, per run.
func (t tally) describe(runs int) {
	lines := slices.SortedFunc(maps.Keys(t.lines), func(a, b string) int { return t.lines[b] - t.lines[a] })
	for _, line := range lines {
		fmt.Fprintf(os.Stderr, "  %6.2f per run  %s\n", float64(t.lines[line])/float64(runs), line)
	}
	for kind, count := range t.others {
		fmt.Fprintf(os.Stderr, "  %6.2f per run  %s, not counted\n", float64(count)/float64(runs), kind)
	}
}
