package runspec

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// MaxReviewBytes bounds an encoded Review, which is kept in a ConfigMap. MaxReviewPlain bounds what it decodes to.
const (
	MaxReviewBytes = 512 << 10
	MaxReviewPlain = 3 << 20
)

// Review is what a person reads before approving a plan. It holds no value that the module declares sensitive.
type Review struct {
	// Version is Version.
	Version int `json:"v"`
	// RunID of the run, and Digest of what its plan sealed.
	RunID  string `json:"runID"`
	Digest string `json:"digest"`
	// Changes are what happens to which resource; Total is how many there are.
	Changes []ResourceChange `json:"changes,omitempty"`
	Total   int32            `json:"total"`
	// Text is the plan as the tool prints it, TextBytes the length of all of it.
	Text      string `json:"text"`
	TextBytes int64  `json:"textBytes"`
}

// ResourceChange is what a plan does to one resource.
type ResourceChange struct {
	Address string `json:"address"`
	// From is the address that it is moved from.
	From    string   `json:"from,omitempty"`
	Actions []string `json:"actions"`
	// Imported says that it is taken into the state.
	Imported bool `json:"imported,omitempty"`
	// Reason is why the tool replaces or deletes it, in the tool's words.
	Reason string `json:"reason,omitempty"`
}

// ErrReview is wrapped by every error of reading a Review.
var ErrReview = errors.New("unreadable review record")

// Encode packs the review into MaxReviewBytes at most, by cutting its text and then its changes.
func (r Review) Encode() ([]byte, error) {
	for {
		plain, err := json.Marshal(r)
		if err != nil {
			return nil, fmt.Errorf("writing the review record: %w", err)
		}
		fits := float64(MaxReviewPlain) / float64(len(plain))
		if fits >= 1 {
			packed, err := pack(plain)
			if err != nil || len(packed) <= MaxReviewBytes {
				return packed, err
			}
			fits = float64(MaxReviewBytes) / float64(len(packed))
		}
		if !r.cut(min(fits, 1) * 0.9) {
			return nil, errors.New("writing the review record: it does not fit")
		}
	}
}

// cut leaves about this share of the text, or of the changes where no text is left.
func (r *Review) cut(share float64) bool {
	switch {
	case r.Text != "":
		r.Text = WholeLines(r.Text, int(float64(len(r.Text))*share))
	case len(r.Changes) > 0:
		r.Changes = r.Changes[:int(float64(len(r.Changes))*share)]
	default:
		return false
	}
	return true
}

// WholeLines is the beginning of text, at most limit bytes, up to the end of a line.
func WholeLines(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return text[:bytes.LastIndexByte([]byte(text[:limit]), '\n')+1]
}

func pack(plain []byte) ([]byte, error) {
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.DefaultCompression)
	if err != nil {
		return nil, fmt.Errorf("packing the review record: %w", err)
	}
	_, err = w.Write(plain)
	if err = errors.Join(err, w.Close()); err != nil {
		return nil, fmt.Errorf("packing the review record: %w", err)
	}
	return packed.Bytes(), nil
}

// DecodeReview unpacks a review and refuses one that is not wholly of the run's plan with this digest.
func DecodeReview(packed []byte, runID, digest string) (Review, error) {
	var r Review
	unpacked, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return r, fmt.Errorf("%w: %w", ErrReview, err)
	}
	plain, err := io.ReadAll(io.LimitReader(unpacked, MaxReviewPlain+1))
	if err == nil && len(plain) > MaxReviewPlain {
		err = fmt.Errorf("it has more than %d bytes", MaxReviewPlain)
	}
	if err == nil {
		err = json.Unmarshal(plain, &r)
	}
	switch {
	case err != nil:
		return Review{}, fmt.Errorf("%w: %w", ErrReview, err)
	case r.Version != Version || r.RunID != runID || r.Digest != digest:
		return Review{}, fmt.Errorf("%w: it is version %d of run %q, plan %q", ErrReview, r.Version, r.RunID, r.Digest)
	}
	return r, nil
}

// ReviewSum identifies an encoded review.
func ReviewSum(packed []byte) string {
	sum := sha256.Sum256(packed)
	return hex.EncodeToString(sum[:])
}

const (
	framePrefix = "magos-review "
	frameBytes  = 6 << 10
	// frameName is how much of the sum stands in each frame.
	frameName = 16
)

// ReviewFrames are the lines in which a review goes through keeper's log. Each names the review's sum, which stands whole in keeper's
// Record: nobody who could print into that log can put something else in its place.
func ReviewFrames(packed []byte) []byte {
	name := ReviewSum(packed)[:frameName]
	var out bytes.Buffer
	for n := 0; len(packed) > 0; n++ {
		part := packed[:min(frameBytes, len(packed))]
		packed = packed[len(part):]
		fmt.Fprintf(&out, "%s%s %d %s\n", framePrefix, name, n, base64.StdEncoding.EncodeToString(part))
	}
	return out.Bytes()
}

// MaxReviewLines is how many lines from the end of keeper's log hold its review for sure: the frames, marks, and its last words.
const MaxReviewLines = MaxReviewBytes/frameBytes + 50

// FindReview reads the review with this sum from the lines of a log.
func FindReview(log []byte, sum string) ([]byte, error) {
	if len(sum) < frameName {
		return nil, fmt.Errorf("%w: no sum", ErrReview)
	}
	prefix := []byte(framePrefix + sum[:frameName] + " ")
	var packed []byte
	next := 0
	for line := range bytes.Lines(log) {
		rest, found := bytes.CutPrefix(bytes.TrimRight(line, "\r\n"), prefix)
		if !found {
			continue
		}
		number, text, _ := bytes.Cut(rest, []byte(" "))
		if string(number) != strconv.Itoa(next) {
			continue
		}
		part, err := base64.StdEncoding.AppendDecode(nil, text)
		if err != nil {
			return nil, fmt.Errorf("%w: frame %d: %w", ErrReview, next, err)
		}
		packed = append(packed, part...)
		next++
	}
	if got := ReviewSum(packed); got != sum {
		return nil, fmt.Errorf("%w: %d frames of it are in the log, and not all that belong to it", ErrReview, next)
	}
	return packed, nil
}
