package explain

import (
	"strings"

	"magosproject.io/api/v1alpha1"
)

// Fact is one link of the chain: what one object says about itself.
type Fact struct {
	// Kind and Name of the object; it need not exist.
	Kind, Name string
	// Phase, Reason and Message as its status has them; empty for an object without them.
	Phase, Reason, Message string
	// Says is the fact as a clause, such as "Workspace staging failed to plan".
	Says string
}

// Explanation is the answer.
type Explanation struct {
	// Sentence is the whole chain in one sentence.
	Sentence string
	// Chain begins with the object that was asked about; each fact is there because of the next.
	Chain []Fact
	// WayOut is what to do about the last fact of the chain.
	WayOut string
}

// Scene is what an explanation is about. Members are the Workspaces of the Project, in any order.
type Scene struct {
	// Workspace that is asked about; nil when the Rollout is.
	Workspace *v1alpha1.Workspace
	// Project of the Workspace or Rollout; nil where it does not exist.
	Project *v1alpha1.Project
	// Rollout of the Project; nil where it does not exist.
	Rollout *v1alpha1.Rollout
	// Members are the Workspaces of the Project.
	Members []*v1alpha1.Workspace
}

// Workspace explains where the Workspace of s stands.
func Workspace(s Scene) Explanation { return conclude(workspaceChain(s, s.Workspace)) }

// Rollout explains where the Rollout of s stands.
func Rollout(s Scene) Explanation { return conclude(rolloutChain(s, nil)) }

// link is a fact with what to do about it, were it the last one.
type link struct {
	fact   Fact
	wayOut string
}

// maxDetail bounds what a sentence quotes of a message.
const maxDetail = 300

func conclude(chain []link) Explanation {
	e := Explanation{Chain: make([]Fact, 0, len(chain))}
	clauses := make([]string, 0, len(chain))
	for _, l := range chain {
		clause := l.fact.Says
		if l.fact.Reason != "" {
			clause += " (" + l.fact.Reason + ")"
		}
		clauses = append(clauses, clause)
		e.Chain = append(e.Chain, l.fact)
		e.WayOut = l.wayOut
	}
	e.Sentence = strings.Join(clauses, ", because ")
	if detail := firstLine(chain[len(chain)-1].fact.Message); detail != "" {
		e.Sentence += ": " + detail
	}
	return e
}

// firstLine is the first line of a message that has any text, as far as a sentence can hold it.
func firstLine(message string) string {
	for line := range strings.Lines(message) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		if len(line) > maxDetail {
			line = strings.ToValidUTF8(line[:maxDetail-3], "") + "..."
		}
		return line
	}
	return ""
}
