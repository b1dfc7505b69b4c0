package up

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	magosv1alpha1 "magosproject.io/api/v1alpha1"
	"magosproject.io/deploy/local/demo"
)

// table shows where each step stands. For a person at a terminal it is drawn over itself; elsewhere each change is a line.
type table struct {
	output  io.Writer
	live    bool
	started time.Time
	drawn   int
	last    []string
}

func newTable(output io.Writer) *table {
	return &table{output: output, live: isTerminal(output), started: time.Now()}
}

const rowFormat = "%-9s %-14s %-10s %-22s %-12s"

func (t *table) show(v view) {
	rows := rowsOf(v)
	if slices.Equal(rows, t.last) && !t.live {
		return
	}
	if t.live {
		t.redraw(rows)
	} else {
		t.print(rows)
	}
	t.last = rows
}

func rowsOf(v view) []string {
	var rows []string
	for n, step := range demo.Steps {
		w := v.workspaces[n]
		rows = append(rows, strings.TrimSpace(fmt.Sprintf(rowFormat, step, w.Name, w.Status.Phase, w.Status.Reason, short(commitOf(w)))))
	}
	return rows
}

func (t *table) redraw(rows []string) {
	if t.drawn > 0 {
		_, _ = fmt.Fprintf(t.output, "\033[%dA", t.drawn)
	}
	lines := append([]string{fmt.Sprintf(rowFormat, "STEP", "WORKSPACE", "PHASE", "REASON", "COMMIT") + time.Since(t.started).Round(time.Second).String()}, rows...)
	for _, line := range lines {
		_, _ = fmt.Fprintf(t.output, "\033[2K%s\n", line)
	}
	t.drawn = len(lines)
}

func (t *table) print(rows []string) {
	if t.last == nil {
		_, _ = fmt.Fprintf(t.output, "%6s  "+rowFormat+"\n", "", "STEP", "WORKSPACE", "PHASE", "REASON", "COMMIT")
	}
	for n, row := range rows {
		if t.last == nil || t.last[n] != row {
			_, _ = fmt.Fprintf(t.output, "%6s  %s\n", time.Since(t.started).Round(time.Second), row)
		}
	}
}

// commitOf is the commit that the Workspace works on, else the one that it has applied.
func commitOf(w *magosv1alpha1.Workspace) string {
	if run := w.Status.Run; run != nil && run.FinishedAt == nil {
		return run.Revision
	}
	return w.Status.ObservedRevision
}

func short(commit string) string { return commit[:min(len(commit), 12)] }
