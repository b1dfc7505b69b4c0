package executor

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"magosproject.io/services/runner/internal/executor/beneath"
	"magosproject.io/services/runner/internal/executor/planjson"
	"magosproject.io/services/runner/internal/runspec"
)

// maxReviewText bounds how much of the plan's text is looked at for its review, in bytes.
const maxReviewText = 2 << 20

// review prints what a person is to read of the plan to keeper's log, for the runner to keep, and returns its sum. A plan that
// cannot be shown is none that fails: it only cannot be approved, and keeper says why.
func (c *container) review(digest string, summary planjson.Summary) string {
	if summary.Empty {
		return ""
	}
	sum, err := c.printReview(digest, summary)
	if err != nil {
		c.log.Error("the plan cannot be shown to people, so that nobody can approve it", "error", err)
		return ""
	}
	return sum
}

func (c *container) printReview(digest string, summary planjson.Summary) (string, error) {
	text, size, err := c.shownText()
	if err != nil {
		return "", err
	}
	packed, err := runspec.Review{
		Version: runspec.Version, RunID: c.in.RunID, Digest: digest,
		Changes: summary.Listed, Total: summary.Total, Text: text, TextBytes: size,
	}.Encode()
	if err != nil {
		return "", err
	}
	if _, err := c.cfg.Stdout.Write(runspec.ReviewFrames(packed)); err != nil {
		return "", fmt.Errorf("printing the review: %w", err)
	}
	return runspec.ReviewSum(packed), nil
}

// shownText is the beginning of the plan's text as show left it, in whole lines, and the size of all of it.
func (c *container) shownText() (text string, size int64, err error) {
	dir, err := beneath.OpenDir(c.cfg.Paths.Shown)
	if err != nil {
		return "", 0, fmt.Errorf("reading the shown plan: %w", err)
	}
	defer func() { _ = dir.Close() }()
	file, err := dir.OpenRegular(shownText)
	if err != nil {
		return "", 0, fmt.Errorf("reading the shown plan: %w", err)
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return "", 0, fmt.Errorf("reading the shown plan: %w", err)
	}
	data, err := io.ReadAll(io.LimitReader(file, maxReviewText))
	if err != nil {
		return "", 0, fmt.Errorf("reading the shown plan: %w", err)
	}
	if len(data) == 0 {
		return "", 0, errors.New("reading the shown plan: its text is empty")
	}
	text = strings.ToValidUTF8(string(data), "\uFFFD")
	if int64(len(data)) < info.Size() {
		text = runspec.WholeLines(text, len(text)-1)
	}
	return text, info.Size(), nil
}
