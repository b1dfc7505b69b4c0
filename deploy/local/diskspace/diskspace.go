// Package diskspace says before something is begun whether the disk has room for it, and which disk it was when one is full.
package diskspace

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Gibibyte is the unit of messages.
const Gibibyte = 1 << 30

// Need is room that something needs below a folder, which need not be there yet.
type Need struct {
	// Folder that is written to.
	Folder string
	// Bytes that must be free there.
	Bytes uint64
	// Purpose says what for, as in "a cluster needs 2 GiB there".
	Purpose string
	// Variable is the environment variable that moves the folder elsewhere.
	Variable string
}

// Check is an error where the file system that the folder is or would be on has less room.
func (n Need) Check() error {
	place, free, err := n.measure()
	if err != nil {
		return err
	}
	if free < n.Bytes {
		return errors.New("disk nearly full: " + n.describe(place, free))
	}
	return nil
}

func (n Need) describe(place string, free uint64) string {
	return fmt.Sprintf("%s has %.1f GiB free and %s needs %.1f GiB there; free some, or set %s to a folder elsewhere",
		place, float64(free)/Gibibyte, n.Purpose, float64(n.Bytes)/Gibibyte, n.Variable)
}

// measure returns the closest folder that exists, and what is free there.
func (n Need) measure() (place string, free uint64, err error) {
	place = n.Folder
	for {
		if _, err := os.Stat(place); err == nil || place == filepath.Dir(place) {
			break
		}
		place = filepath.Dir(place)
	}
	var space syscall.Statfs_t
	if err := syscall.Statfs(place, &space); err != nil {
		return "", 0, fmt.Errorf("measuring the free space of %s: %w", place, err)
	}
	return place, space.Bavail * uint64(space.Bsize), nil
}

// IsFull says whether the error comes from a disk that is full, also where a program has put it into words.
func IsFull(err error) bool {
	if err == nil {
		return false
	}
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return true
	}
	return strings.Contains(err.Error(), syscall.ENOSPC.Error()) || strings.Contains(err.Error(), syscall.EDQUOT.Error())
}

// exhausted is what a file system has left that is full for most purposes.
const exhausted = 16 << 20

// Explain says whether a full disk is behind an error, and adds to it which of the places lacks room, and how much. Other errors
// stay as they are. Programs that run out of room often die of something else that follows from it: a place that is full says more
// than their words. And one that has given up may have freed what it had written: where every place has room by now, the fullest is named.
func Explain(err error, needs ...Need) (explained error, full bool) {
	full = IsFull(err)
	for _, need := range needs {
		if _, free, measureErr := need.measure(); err != nil && measureErr == nil && free < min(exhausted, need.Bytes) {
			full = true
		}
	}
	if !full {
		return err, false
	}
	var lacking []string
	fullest, least := "", uint64(0)
	for _, need := range needs {
		place, free, measureErr := need.measure()
		if measureErr != nil {
			continue
		}
		if free < need.Bytes {
			lacking = append(lacking, need.describe(place, free))
		}
		if fullest == "" || free < least {
			fullest, least = need.describe(place, free), free
		}
	}
	if len(lacking) == 0 && fullest != "" {
		lacking = []string{fullest}
	}
	return fmt.Errorf("disk full: %s: %w", strings.Join(lacking, "; "), err), true
}
