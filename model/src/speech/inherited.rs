//! Keys that every `config.json` of transformers inherits.

use crate::config::Rest;

/// Keys of `PretrainedConfig` that do not affect these networks: bookkeeping, and settings of a text
/// generator that the speech models do not use.
///
/// Source: transformers 4.57 `configuration_utils.py`.
pub(super) const INHERITED: &str = "
    _name_or_path add_cross_attention architectures bad_words_ids begin_suppress_tokens
    bos_token_id chunk_size_feed_forward cross_attention_hidden_size decoder_start_token_id
    diversity_penalty do_sample dtype early_stopping encoder_no_repeat_ngram_size eos_token_id
    exponential_decay_length_penalty finetuning_task forced_bos_token_id forced_eos_token_id
    id2label is_decoder is_encoder_decoder label2id length_penalty max_length min_length
    no_repeat_ngram_size num_beam_groups num_beams num_return_sequences output_attentions
    output_hidden_states output_scores pad_token_id prefix problem_type pruned_heads
    remove_invalid_values repetition_penalty return_dict return_dict_in_generate sep_token_id
    suppress_tokens task_specific_params temperature tf_legacy_loss tie_encoder_decoder
    tie_word_embeddings tokenizer_class top_k top_p torch_dtype torchscript transformers_version
    typical_p use_bfloat16";

/// Returns the keys of `rest` that are not in `keys`, a list with spaces between.
pub(super) fn without(rest: &Rest, keys: &str) -> Rest {
    let is_other = |key: &str| keys.split_whitespace().all(|own| own != key);
    let others = rest.iter().filter(|(key, _)| is_other(key));
    others.map(|(key, value)| (key.clone(), value.clone())).collect()
}
