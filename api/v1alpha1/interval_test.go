package v1alpha1

import (
	"strings"
	"testing"
	"time"
)

func TestParseInterval(t *testing.T) {
	const otherwise = 3 * time.Minute
	for value, c := range map[string]struct {
		want  time.Duration
		valid bool
	}{
		"":                       {otherwise, true},
		"90s":                    {90 * time.Second, true},
		"1h30m":                  {90 * time.Minute, true},
		"1ms":                    {time.Second, true},
		"0s":                     {otherwise, false},
		"-5m":                    {otherwise, false},
		"5":                      {otherwise, false},
		"soon":                   {otherwise, false},
		" 5m":                    {otherwise, false},
		"2000000h":               {otherwise, false},
		"99999999999999999999h":  {otherwise, false},
		strings.Repeat("x", 999): {otherwise, false},
	} {
		got, err := ParseInterval(AnnotationReconcileInterval, value, otherwise)
		if got != c.want || (err == nil) != c.valid {
			t.Errorf("%q: %s, %v", value, got, err)
		}
		if err != nil && (len(err.Error()) > 300 || !strings.Contains(err.Error(), AnnotationReconcileInterval) || !strings.Contains(err.Error(), otherwise.String())) {
			t.Errorf("%q is told of as %s", value, err)
		}
	}
}
