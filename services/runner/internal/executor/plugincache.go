package executor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"magosproject.io/services/runner/internal/executor/process"
	"magosproject.io/services/runner/internal/executor/toolerror"
)

// fillingMark lies in the cache of providers while the tool may be writing there. The tools look below folders only.
const fillingMark = ".filling"

// limitedMark says which mirror alone has filled the cache; it is not there where other places may have.
const limitedMark = ".limited"

// limitCache empties a cache that may have providers from elsewhere than the mirror that they are limited to: with a lock
// file the tools take from it what no place has.
func (c *container) limitCache() error {
	mark := filepath.Join(c.cfg.Paths.pluginCache(), limitedMark)
	if !c.in.ProviderMirrorOnly {
		if err := os.Remove(mark); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	filledBy, err := os.ReadFile(mark)
	if err == nil && string(filledBy) == c.in.ProviderMirror {
		return nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := empty(c.cfg.Paths.pluginCache()); err != nil {
		return err
	}
	return os.WriteFile(mark, []byte(c.in.ProviderMirror), 0o640)
}

// openCache empties a cache that a keeper was filling when it was killed, or its volume full: half a provider may lie
// there. With a lock file the tools refuse it for ever, without one they take it for whole.
func (c *container) openCache() error {
	mark := filepath.Join(c.cfg.Paths.pluginCache(), fillingMark)
	_, err := os.Lstat(mark)
	if err == nil {
		c.log.Warn("an earlier run ended while it filled the cache of providers; the cache is emptied")
		err = empty(c.cfg.Paths.pluginCache())
	}
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		err = c.limitCache()
	}
	if err == nil {
		err = os.WriteFile(mark, nil, 0o640)
	}
	if err != nil {
		return fmt.Errorf("preparing the cache of providers: %w", err)
	}
	return nil
}

// closeCache takes the mark away when the tool, which ended with outcome, has left whole providers alone, and these are on
// the disk.
func (c *container) closeCache(outcome error) error {
	if outcome != nil && !endedByItself(outcome) {
		return outcome
	}
	err := c.syncCache()
	if err == nil {
		err = os.Remove(filepath.Join(c.cfg.Paths.pluginCache(), fillingMark))
	}
	if err != nil {
		return errors.Join(outcome, fmt.Errorf("finishing the cache of providers: %w", err))
	}
	return outcome
}

func (c *container) syncCache() error {
	folder, err := os.Open(c.cfg.Paths.pluginCache())
	if err != nil {
		return err
	}
	return errors.Join(unix.Syncfs(int(folder.Fd())), folder.Close())
}

// endedByItself says whether the tool failed with what it was doing finished: neither killed, nor for want of room.
func endedByItself(err error) bool {
	var exit *process.ExitError
	return errors.As(err, &exit) && exit.Code >= 0 && !toolerror.DiskFull(err.Error())
}

// tornWords are in what init prints of a provider in the cache that is not what it should be.
var tornWords = []string{"existing cached package", "checksum for existing cached provider package"}
