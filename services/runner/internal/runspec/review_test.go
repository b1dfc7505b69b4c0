package runspec

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

func sample(text string, changes int) Review {
	r := Review{Version: Version, RunID: "r", Digest: "sha256:d", Text: text, TextBytes: int64(len(text)), Total: int32(changes)}
	for n := range changes {
		r.Changes = append(r.Changes, ResourceChange{Address: fmt.Sprintf("module.m[%d].a.b", n), Actions: []string{"create"}})
	}
	return r
}

// noise is text that does not pack well.
func noise(lines int) string {
	random := rand.New(rand.NewPCG(5, 6))
	var out strings.Builder
	for range lines {
		fmt.Fprintf(&out, "%x%x%x\n", random.Uint64(), random.Uint64(), random.Uint64())
	}
	return out.String()
}

func TestAReviewComesWholeThroughALog(t *testing.T) {
	want := sample("  + resource \"a\" \"b\" {}\nPlan: 1 to add\n", 3)
	packed, err := want.Encode()
	if err != nil {
		t.Fatal(err)
	}
	sum := ReviewSum(packed)
	frames := bytes.SplitAfter(ReviewFrames(append(bytes.Clone(packed), []byte(noise(2000))...)), []byte("\n"))
	if len(frames) < 5 {
		t.Fatal("one frame tests nothing")
	}
	log := bytes.Join([][]byte{
		LogMark("keeper", 0), []byte("magos-review 0123456789abcdef 0 Zm9yZ2Vk\nmagos-review " + sum[:16] + " 1 Zm9yZ2Vk\n"),
		ReviewFrames(packed), []byte("level=INFO msg=planned\n"),
	}, nil)
	found, err := FindReview(log, sum)
	if err != nil || !bytes.Equal(found, packed) {
		t.Fatalf("found %d bytes of %d: %v", len(found), len(packed), err)
	}
	if got, err := DecodeReview(found, "r", "sha256:d"); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
	for name, of := range map[string][2]string{"another run": {"s", "sha256:d"}, "another plan": {"r", "sha256:e"}} {
		if _, err := DecodeReview(packed, of[0], of[1]); !errors.Is(err, ErrReview) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := DecodeReview([]byte("no gzip"), "r", "sha256:d"); !errors.Is(err, ErrReview) {
		t.Errorf("no gzip: %v", err)
	}
}

// Whoever can print into the log, or cut it, can keep a review from being read, and never change it.
func TestAReviewIsWholeOrNone(t *testing.T) {
	packed := []byte(noise(500))
	sum := ReviewSum(packed)
	frames := bytes.SplitAfter(ReviewFrames(packed), []byte("\n"))
	for name, log := range map[string][]byte{
		"nothing":   nil,
		"cut off":   bytes.Join(frames[1:], nil),
		"a gap":     append(bytes.Clone(frames[0]), frames[2]...),
		"the end":   bytes.Join(frames[:len(frames)-2], nil),
		"changed":   bytes.Replace(bytes.Join(frames, nil), []byte(" 1 "), []byte(" 1 AAAA"), 1),
		"no base64": bytes.Replace(bytes.Join(frames, nil), []byte(" 1 "), []byte(" 1 *"), 1),
	} {
		if found, err := FindReview(log, sum); !errors.Is(err, ErrReview) {
			t.Errorf("%s: %d bytes, %v", name, len(found), err)
		}
	}
	if _, err := FindReview(bytes.Join(frames, nil), ""); !errors.Is(err, ErrReview) {
		t.Errorf("no sum: %v", err)
	}
	if lines := bytes.Count(ReviewFrames(bytes.Repeat([]byte("x"), MaxReviewBytes)), []byte("\n")); lines+10 > MaxReviewLines {
		t.Errorf("the largest review has %d lines, %d are read", lines, MaxReviewLines)
	}
}

func TestAReviewThatIsTooLargeIsCutAndSaysSo(t *testing.T) {
	for name, r := range map[string]Review{
		"much text": sample(noise(60_000), 10), "much text that packs": sample(strings.Repeat("a line of a plan\n", 300_000), 10),
		"many changes": sample(noise(60_000), 50_000), "one line": sample(strings.ReplaceAll(noise(60_000), "\n", " "), 1),
	} {
		packed, err := r.Encode()
		if err != nil || len(packed) > MaxReviewBytes {
			t.Errorf("%s: %d bytes, %v", name, len(packed), err)
			continue
		}
		got, err := DecodeReview(packed, "r", "sha256:d")
		if err != nil || got.TextBytes != r.TextBytes || got.Total != r.Total || len(got.Text) >= len(r.Text) || !strings.HasPrefix(r.Text, got.Text) {
			t.Errorf("%s: %d of %d bytes, %d of %d changes, %v", name, len(got.Text), got.TextBytes, len(got.Changes), got.Total, err)
		}
		if got.Text != "" && !strings.HasSuffix(got.Text, "\n") {
			t.Errorf("%s: cut within a line", name)
		}
	}
}
