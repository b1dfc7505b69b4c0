// Package webhook takes the push webhooks of Git hosting services over HTTP, on every replica. A webhook is a hint and nothing else: nothing of it is
// believed but which repository may have changed, and all that follows is one poll. So a webhook that is replayed, or comes ten thousand times, does no harm.
package webhook
