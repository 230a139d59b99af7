package catalog

// Sealed is a resource with a credential that is kept sealed beside it: an account with its api_key, a webhook with
// its secret.
type Sealed interface {
	Resource
	// SecretID names the credential among all sealed ones.
	SecretID() string
	// Secret is the version of the credential, 0 for "as it is", and its masked form.
	Secret() (version int64, masked string)
	// WithSecret is a copy that refers to another version.
	WithSecret(version int64, masked string) Sealed

	setSecret(version int64, masked string)
	secretField() string
}

// SecretID of an account is its id.
func (r *Account) SecretID() string { return r.ID }

// Secret is the version of the API key and its masked form.
func (r *Account) Secret() (int64, string) { return r.SecretVersion, r.Masked }

// WithSecret is a copy with another version of the API key.
func (r *Account) WithSecret(version int64, masked string) Sealed {
	v := *r
	v.setSecret(version, masked)
	return &v
}

func (r *Account) setSecret(version int64, masked string) {
	r.SecretVersion, r.Masked = version, masked
}
func (*Account) secretField() string { return "api_key" }

// SecretID of a webhook is "webhook/<id>", which is no account's.
func (r *Webhook) SecretID() string { return "webhook/" + r.ID }

// Secret is the version of the signing secret and its masked form.
func (r *Webhook) Secret() (int64, string) { return r.SecretVersion, r.Masked }

// WithSecret is a copy with another version of the signing secret.
func (r *Webhook) WithSecret(version int64, masked string) Sealed {
	v := *r
	v.setSecret(version, masked)
	return &v
}

func (r *Webhook) setSecret(version int64, masked string) {
	r.SecretVersion, r.Masked = version, masked
}
func (*Webhook) secretField() string { return "secret" }

// sealed checks the reference to a credential; one that is left out stays what it is.
func (c *checker) sealed(r Sealed, s *State) {
	field := r.secretField()
	version, masked := r.Secret()
	old, _, _ := s.Get(r.Kind(), r.Ident())
	was, exists := old.(Sealed)
	var oldVersion int64
	var oldMasked string
	if exists {
		oldVersion, oldMasked = was.Secret()
	}
	switch {
	case version > 0:
		if !isMasked(masked) {
			c.fail(field, "must be sealed and masked before it is recorded") // else it would be in an event for ever
		}
	case version < 0:
		c.fail(field, "has a negative version")
	case !exists && isMasked(masked):
		c.fail(field, "is masked, and there is no %s to keep the %s of", r.Kind(), secretWord(field))
	case !exists:
		c.fail(field, "is required")
	case masked != "" && masked != oldMasked:
		c.fail(field, "is masked but not the present %s %s; give the whole %s", secretWord(field), oldMasked, secretWord(field))
	default:
		r.setSecret(oldVersion, oldMasked)
	}
}

// secretWord is what people call the credential.
func secretWord(field string) string {
	if field == "api_key" {
		return "key"
	}
	return field
}
