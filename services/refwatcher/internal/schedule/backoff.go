package schedule

import (
	"hash/fnv"
	"strconv"
	"time"
)

// Outcome is how a poll ended.
type Outcome int

const (
	// Answered means that the remote listed its refs.
	Answered Outcome = iota
	// Refused means that somebody answered, but not with refs. Most likely a person must act: there is no such repository, or the credential is wrong.
	Refused
	// Unreachable means no connection, no answer in time, or one that says that the server is down. Most likely it passes.
	Unreachable
)

const (
	// firstRetry comes this long after a remote could not be reached for the first time.
	firstRetry = 2 * time.Second
	// DefaultPatience lets a server be away for some minutes.
	DefaultPatience = 8
	// longestRetryAfter bounds what a server may ask for.
	longestRetryAfter = time.Hour
)

// note takes down how a poll ended.
func (r *remote) note(now time.Time, outcome Outcome, retryAfter time.Duration) {
	if outcome != r.outcome {
		r.failures = 0
	}
	r.outcome = outcome
	r.failures++
	r.notBefore = time.Time{}
	if outcome == Answered {
		r.failures = 0
	}
	if retryAfter > 0 {
		r.notBefore = now.Add(min(retryAfter, longestRetryAfter))
	}
}

// backoff is the delay after a number of polls in a row that ended with an outcome. For one that was refused it is twice the interval, and so on. One that is
// unreachable is asked again soon, then at its interval, and after a while at longer ones. The longest is never shorter than the interval.
func (s Settings) backoff(interval time.Duration, outcome Outcome, failures int) time.Duration {
	longest := max(s.MaxBackoff, interval)
	switch {
	case outcome == Answered:
		return interval
	case outcome == Refused:
		return doubled(interval, failures, longest)
	case failures <= s.Patience:
		return doubled(firstRetry, failures-1, interval)
	}
	return doubled(interval, failures-s.Patience, longest)
}

func doubled(delay time.Duration, times int, longest time.Duration) time.Duration {
	for range times {
		if delay >= longest/2 {
			return longest
		}
		delay *= 2
	}
	return min(delay, longest)
}

// spread is between 0 and 1, differs between remotes and polls, and is the same each time that it is asked for.
func spread(key string, polls int) float64 {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(key + "\x00" + strconv.Itoa(polls)))
	return float64(sum.Sum32()%1000) / 1000
}
