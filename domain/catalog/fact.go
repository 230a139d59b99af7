package catalog

// Facts of the catalogue. Each says the whole new value; one stream per resource ("catalog/<kind>/<id>").

// UpstreamRegistered says that an upstream is new; UpstreamChanged that it is another; Removed ends the resource.
// The same for the other kinds.
type (
	UpstreamRegistered struct{ Upstream }
	UpstreamChanged    struct{ Upstream }
	UpstreamRemoved    struct {
		ID string `json:"id"`
	}
	AccountRegistered struct{ Account }
	AccountChanged    struct{ Account }
	AccountRemoved    struct {
		ID string `json:"id"`
	}
	GroupRegistered struct{ Group }
	GroupChanged    struct{ Group }
	GroupRemoved    struct {
		ID string `json:"id"`
	}
	UserRegistered struct{ User }
	UserChanged    struct{ User }
	UserRemoved    struct {
		ID string `json:"id"`
	}
	KeyRegistered struct{ Key }
	KeyChanged    struct{ Key }
	KeyRemoved    struct {
		ID string `json:"id"`
	}
	PriceRegistered struct{ Price }
	PriceChanged    struct{ Price }
	PriceRemoved    struct {
		ID string `json:"id"`
	}
	RuleRegistered struct{ Rule }
	RuleChanged    struct{ Rule }
	RuleRemoved    struct {
		ID string `json:"id"`
	}
	SettingRegistered struct{ Setting }
	SettingChanged    struct{ Setting }
	SettingRemoved    struct {
		Name string `json:"name"`
	}
	WebhookRegistered struct{ Webhook }
	WebhookChanged    struct{ Webhook }
	WebhookRemoved    struct {
		ID string `json:"id"`
	}
)
