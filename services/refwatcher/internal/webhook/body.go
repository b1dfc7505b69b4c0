package webhook

import (
	"errors"
	"io"
	"net/http"
	"sync/atomic"
)

// MaxBodyLimit is the largest limit that a Handler can have for one body, in bytes.
const MaxBodyLimit = allBodies / 2

const (
	// allBodies bounds what the bodies of all requests together hold: who sends them is not known before they were read.
	allBodies = 16 << 20
	chunk     = 32 << 10
)

var (
	errTooLarge = errors.New("the body is too large")
	errNoRoom   = errors.New("too many bodies are being read")
)

// room is how many bytes of bodies there is memory for. It is taken as they arrive, not as they are announced: who announces much and sends nothing takes
// nothing.
type room struct{ free atomic.Int64 }

func newRoom(size int64) *room {
	r := &room{}
	r.free.Store(size)
	return r
}

func (r *room) take(size int64) bool {
	if r.free.Add(-size) >= 0 {
		return true
	}
	r.free.Add(size)
	return false
}

// read reads a body of limit bytes at most. give returns its room and must be called in any case.
func (r *room) read(request *http.Request, limit int64) (body []byte, give func(), err error) {
	taken := int64(0)
	give = func() { r.free.Add(taken) }
	if request.ContentLength > limit {
		return nil, give, errTooLarge
	}
	for {
		if int64(len(body)) == taken {
			more := max(chunk, taken)
			if !r.take(more) {
				return nil, give, errNoRoom
			}
			taken += more
			grown := make([]byte, len(body), taken)
			copy(grown, body)
			body = grown
		}
		n, err := request.Body.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		if int64(len(body)) > limit {
			return nil, give, errTooLarge
		}
		if errors.Is(err, io.EOF) {
			return body, give, nil
		}
		if err != nil {
			return nil, give, err
		}
	}
}
