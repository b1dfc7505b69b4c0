package schedule

import "magosproject.io/api/v1alpha1"

// unverifiedMessage says what follows from a missing key of a Secret and what to do.
const unverifiedMessage = "the repository credential has no knownHosts: whoever answers in place of the server can say which commit to run; add what ssh-keyscan prints"

// Told is what has been announced about a Workspace, so that it is said on transitions only. The zero value is nothing.
type Told struct {
	// Reason of the trouble that was announced; empty if there is none.
	Reason v1alpha1.Reason
	// BadInterval is the value of the git-poll-interval annotation that was complained about.
	BadInterval string
	// Unverified says that it was announced that the key of the server is not verified.
	Unverified bool
}

// Announcement is an Event to emit.
type Announcement struct {
	// Warning rather than Normal.
	Warning bool
	// Reason and Message of the Event.
	Reason  v1alpha1.Reason
	Message string
}

// Decision is what to do about one Workspace. The zero value with Told unchanged is nothing.
type Decision struct {
	// Set and Remove are changes of annotations; both empty means that nothing is written.
	Set    map[string]string
	Remove []string
	// Announce lists Events to emit once the annotations are written.
	Announce []Announcement
	// Told replaces what was told before.
	Told Told
}

// Decide says what to write on a Workspace and what to announce, given what was found for it and what was told before.
func Decide(w *v1alpha1.Workspace, found Finding, told Told) Decision {
	d := Decision{Told: told}
	d.decideAnnotations(w, found)
	d.announceTrouble(found, told)
	d.announceInterval(w, told)
	d.announceUnverified(found, told)
	return d
}

func (d *Decision) decideAnnotations(w *v1alpha1.Workspace, found Finding) {
	subject := v1alpha1.GrantSubject(w)
	revision, hasRevision := w.Annotations[v1alpha1.AnnotationDetectedRevision]
	detectedFor, hasFor := w.Annotations[v1alpha1.AnnotationDetectedFor]
	switch {
	case found.Commit != "":
		if revision != found.Commit || detectedFor != subject {
			d.Set = map[string]string{v1alpha1.AnnotationDetectedRevision: found.Commit, v1alpha1.AnnotationDetectedFor: subject}
		}
	case hasFor && detectedFor != subject:
		// The source was edited and the new one is not resolved yet: the old commit would be taken for the new target. Where only the
		// branch is gone, or the remote is down, what is known stays.
		d.Remove = []string{v1alpha1.AnnotationDetectedFor}
		if hasRevision {
			d.Remove = append(d.Remove, v1alpha1.AnnotationDetectedRevision)
		}
	}
}

func (d *Decision) announceTrouble(found Finding, told Told) {
	switch {
	case found.Trouble != nil && found.Trouble.Reason != told.Reason:
		d.Told.Reason = found.Trouble.Reason
		d.Announce = append(d.Announce, Announcement{Warning: true, Reason: found.Trouble.Reason, Message: found.Trouble.Message})
	case found.Trouble == nil && found.Commit != "" && told.Reason != "":
		d.Told.Reason = ""
		d.Announce = append(d.Announce, Announcement{Reason: v1alpha1.ReasonRevisionResolved, Message: "the target revision is commit " + found.Commit})
	}
}

func (d *Decision) announceInterval(w *v1alpha1.Workspace, told Told) {
	value := w.Annotations[v1alpha1.AnnotationGitPollInterval]
	_, err := Interval(value)
	if err == nil {
		d.Told.BadInterval = ""
		return
	}
	if value != told.BadInterval {
		d.Told.BadInterval = value
		d.Announce = append(d.Announce, Announcement{Warning: true, Reason: v1alpha1.ReasonInvalidAnnotation, Message: err.Error()})
	}
}

func (d *Decision) announceUnverified(found Finding, told Told) {
	d.Told.Unverified = found.Unverified
	if found.Unverified && !told.Unverified {
		d.Announce = append(d.Announce, Announcement{Warning: true, Reason: v1alpha1.ReasonHostKeyNotVerified, Message: unverifiedMessage})
	}
}
