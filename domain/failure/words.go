package failure

// What errors are called, in lower case. Types are whole names of error.type or error.code; words stand anywhere in the
// message; phrases begin it, because what follows may quote the caller, and no caller may block an account with words.
var (
	overloadedTypes = []string{"overloaded_error", "server_is_overloaded", "overloaded", "engine_overloaded", "engine_overloaded_error", "slow_down", "model_overloaded"}
	overloadedWords = []string{"overloaded", "at capacity", "over capacity", "no capacity"}

	rateTypes  = []string{"rate_limit_error", "rate_limit_exceeded", "rate_limit_reached", "resource_exhausted", "too_many_requests", "429"}
	quotaTypes = []string{
		"insufficient_quota", "insufficient_balance", "insufficient_user_quota", "quota_exceeded", "exceeded_current_quota_error",
		"billing_error", "billing_hard_limit_reached", "billing_not_active", "billing_disabled", "credit_balance_too_low",
		"usage_limit_reached", "usage_not_included", "arrearage", "402",
	}
	quotaPhrases = []string{
		"your credit balance is too low", "you exceeded your current quota", "insufficient balance", "insufficient credits",
		"insufficient quota", "billing hard limit has been reached", "you have reached your specified api usage limits",
		"you're out of extra usage", "the usage limit has been reached", "you've hit your usage limit",
	}
	billingWords = []string{"check your plan and billing", "billing hard limit", "credit balance", "out of credits", "insufficient balance"}
	googleTypes  = []string{"resource_exhausted"} // Google calls the limit of a minute and the end of a quota alike

	authTypes = []string{"authentication_error", "unauthenticated"}
	deadTypes = []string{
		"invalid_api_key", "api_key_invalid", "api_key_expired", "account_deactivated", "organization_deactivated", "organization_disabled",
		"token_revoked", "token_invalidated", "consumer_suspended", "consumer_invalid", "service_disabled", "api_key_service_blocked",
	}
	accountPhrases = []string{
		"this organization has been disabled", "your organization has been disabled", "your account has been", "your account is",
		"the openai account associated with this api key has been deactivated", "your openai account has been deactivated",
		"incorrect api key provided", "api key not valid", "api key expired", "your api key has been", "your api key was",
		"your access was terminated",
		"your authentication token has been invalidated", "consumer 'api_key:",
	}
	resourceWords = []string{"access to model", "access to the model", "permission to use", "not have access to"}
	regionTypes   = []string{"unsupported_country_region_territory"}
	regionPhrases = []string{"user location is not supported", "country, region, or territory not supported"}

	callerTypes = []string{
		"context_length_exceeded", "string_above_max_length", "request_too_large", "invalid_prompt",
		"content_policy_violation", "content_filter", "content_policy", "moderation_blocked", "data_inspection_failed",
		"responsibleaipolicyviolation", "image_content_policy_violation", "cyber_policy", "bio_policy",
		"invalid_image", "invalid_image_format", "invalid_base64_image", "invalid_image_url", "image_too_large", "image_too_small",
		"image_parse_error", "image_file_too_large", "unsupported_image_media_type", "empty_image_file", "failed_to_download_image",
	}
	callerWords = []string{
		"prompt is too long", "context length", "context window", "maximum context", "input was flagged", "input token count",
		"violates our usage polic", "content management policy",
	}
	invalidTypes = []string{"invalid_request_error", "invalid_argument", "unsupported_parameter"}
	missingTypes = []string{"not_found_error", "model_not_found", "not_found"}
)
