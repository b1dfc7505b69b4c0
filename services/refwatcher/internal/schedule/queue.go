package schedule

import (
	"container/heap"
	"time"
)

// unplaced is the place of what is in no queue.
const unplaced = -1

// placed is what a queue can hold: it has a due time and remembers its place.
type placed interface {
	due() time.Time
	setPlace(int)
	getPlace() int
}

// queue is a min-heap by due time. Its first element is the one due first.
type queue[T placed] []T

func (q *queue[T]) add(x T) { heap.Push(q, x) }

func (q *queue[T]) remove(x T) {
	heap.Remove(q, x.getPlace())
	x.setPlace(unplaced)
}

// Len, Less, Swap, Push and Pop are for container/heap alone.

func (q queue[T]) Len() int           { return len(q) }
func (q queue[T]) Less(i, j int) bool { return q[i].due().Before(q[j].due()) }
func (q queue[T]) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].setPlace(i)
	q[j].setPlace(j)
}

func (q *queue[T]) Push(x any) {
	element := x.(T)
	element.setPlace(len(*q))
	*q = append(*q, element)
}

func (q *queue[T]) Pop() any {
	last := len(*q) - 1
	element := (*q)[last]
	var none T
	(*q)[last] = none
	*q = (*q)[:last]
	return element
}

func (r *remote) due() time.Time     { return r.next }
func (r *remote) setPlace(place int) { r.place = place }
func (r *remote) getPlace() int      { return r.place }

// due of a host is that of its first remote.
func (h *host) due() time.Time     { return h.idle[0].next }
func (h *host) setPlace(place int) { h.place = place }
func (h *host) getPlace() int      { return h.place }
